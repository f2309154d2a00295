"""Keys of admission in Redis, and the scripts that change them in one step each."""

from __future__ import annotations

NOW = "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000)"
# KEYS: turns, parked. ARGV: token, lease in ms, limit. Answers {1, 0}, {0, 0} when it is full, {-1, ms} when parked.
ENTER = f"""
{NOW}
local left = redis.call('PTTL', KEYS[2])
if left > 0 then return {{-1, left}} end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return {{0, 0}} end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2] * 2)
return {{1, 0}}
"""
# KEYS: turns. ARGV: lease in ms, tokens. A token that has run out comes back: its turn does run.
RENEW = f"""
{NOW}
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1] * 2)
"""
# KEYS: parked, parks. ARGV: ms until the reset or 0, first ms, most ms, reason, how many parks are remembered for.
# Many turns meet the limit at once: those that find the model parked only ever make it longer.
PARK = """
local left = redis.call('PTTL', KEYS[1])
local asked = tonumber(ARGV[1])
if left > 0 and asked <= left then return left end
local ms = asked
if left <= 0 then
  local parks = redis.call('INCR', KEYS[2])
  local own = math.min(ARGV[2] * 2 ^ math.min(parks - 1, 20), tonumber(ARGV[3]))
  if asked == 0 then ms = own end
end
ms = math.floor(ms)
redis.call('SET', KEYS[1], ARGV[4], 'PX', ms)
redis.call('PEXPIRE', KEYS[2], math.floor(math.max(ms, tonumber(ARGV[2])) * ARGV[5]))
return ms
"""


def turns_key(model: str) -> str:
    return f"desk:turns:{model}"


def parked_key(model: str) -> str:
    return f"desk:parked:{model}"


def parks_key(model: str) -> str:
    return f"desk:parks:{model}"
