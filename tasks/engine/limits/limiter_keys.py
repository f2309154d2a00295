"""Keys of admission in Redis, and the scripts that change them in one step each."""

from __future__ import annotations

NOW = "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000)"
# KEYS: turns, waiting, kept, here, parked. ARGV: token, lease, limit, ticket, and for how long a ticket that asked
# counts as there, and its place is kept; times in ms. Answers {1, 0, 0}; {-1, ms, place} when the model is parked; {0,
# 0, place} when it has to wait: tickets before it in the line. A ticket that is not there lets those behind it pass,
# but keeps its place.
ENTER = f"""
{NOW}
local ticket = ARGV[4]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now)) do
  redis.call('ZREM', KEYS[2], gone) redis.call('ZREM', KEYS[3], gone) redis.call('ZREM', KEYS[4], gone)
end
redis.call('ZADD', KEYS[2], 'NX', string.format('%.0f', t[1] * 1000000 + t[2]), ticket)
local place = redis.call('ZRANK', KEYS[2], ticket)
local left = math.max(redis.call('PTTL', KEYS[5]), 0)
local here = left > 0 and 0 or tonumber(ARGV[5])
local free = left > 0 and 0 or tonumber(ARGV[3]) - redis.call('ZCARD', KEYS[1])
local at = 0
while at < place and free > 0 do
  local other = redis.call('ZRANGE', KEYS[2], at, at)[1]
  if tonumber(redis.call('ZSCORE', KEYS[4], other) or '0') >= now then free = free - 1 end
  at = at + 1
end
if free > 0 then
  redis.call('ZREM', KEYS[2], ticket) redis.call('ZREM', KEYS[3], ticket) redis.call('ZREM', KEYS[4], ticket)
  redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[2] * 2)
  return {{1, 0, 0}}
end
redis.call('ZADD', KEYS[3], now + left + ARGV[6], ticket)
redis.call('ZADD', KEYS[4], now + here, ticket)
for at = 2, 4 do
  if redis.call('PTTL', KEYS[at]) < left + ARGV[6] then redis.call('PEXPIRE', KEYS[at], left + ARGV[6]) end
end
if left > 0 then return {{-1, left, place}} end
return {{0, 0, place}}
"""
# KEYS: waiting, kept, here. ARGV: ticket, ms for which its place is kept. It may come later than its place was lost.
ASIDE = f"""
{NOW}
redis.call('ZREM', KEYS[3], ARGV[1])
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then redis.call('ZADD', KEYS[2], now + ARGV[2], ARGV[1]) end
for at = 1, 2 do
  if redis.call('PTTL', KEYS[at]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[at], ARGV[2]) end
end
"""
# KEYS: turns. ARGV: lease in ms, tokens. A token that has run out comes back: its turn does run.
RENEW = f"""
{NOW}
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1] * 2)
"""
# KEYS: parked, parks. ARGV: ms until the reset or 0, first ms, most ms, reason, how many parks are remembered for.
# Many turns meet the limit at once: those that find the model parked only ever make it longer. A provider that limits
# again and again after the time that it names is left alone for twice as long each time.
PARK = """
local left = redis.call('PTTL', KEYS[1])
local asked = tonumber(ARGV[1])
if left > 0 and asked <= left then return left end
local ms = asked
if left <= 0 then
  local parks = redis.call('INCR', KEYS[2])
  if asked == 0 then ms, parks = tonumber(ARGV[2]), parks + 1 end
  ms = math.max(ms, math.min(ms * 2 ^ math.max(0, math.min(parks - 2, 20)), tonumber(ARGV[3])))
end
ms = math.floor(ms)
redis.call('SET', KEYS[1], ARGV[4], 'PX', ms)
redis.call('PEXPIRE', KEYS[2], math.floor(math.max(ms, tonumber(ARGV[2])) * ARGV[5]))
return ms
"""


def turns_key(line: str) -> str:
    return f"desk:turns:{line}"


def waiting_key(line: str) -> str:
    return f"desk:waiting:{line}"


def kept_key(line: str) -> str:
    return f"desk:kept:{line}"


def here_key(line: str) -> str:
    return f"desk:here:{line}"


def parked_key(model: str) -> str:
    return f"desk:parked:{model}"


def parks_key(model: str) -> str:
    return f"desk:parks:{model}"
