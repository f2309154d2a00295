"""Words that people write where a symbol or a name could stand, and that are none."""

from __future__ import annotations

_NO_SYMBOL = """
A AN AND ANY ARE AS AT BE BUY BY CAN CASH CAUTION COST DID DO DOES FOR FROM GET GO HALT HAS HE HOLD HOW I ID
IF IN IS IT ITS LAST ME MY NEW NO NOT NOW OF OFF OK ON ONE OR OUR OUT OWN PASS PL P&L PNL PUT RUN RUNS SELL SHE
SINCE SO THE TO TWO UP US USD UTC VS WAS WE WHAT WHEN WHO WHY YES YOU
"""
_COMMON = """
a all an and any anything are away back bad be been being big board buy call can cap cash cents chart cheap check
close code   cost  curve data date day days  desk did does doing done down each else end 
ever every far few fine fit five flat for four from full fund funds gain get go going  good had half halt hand
has have held here high hit hits hold hours how idle in into is it its job jobs just keep kind last late lens less
live long loss lost low made main make many me mean mine model money month more most much my name names near need
new news next night no none not note now odds of off  on once one ones only open or order our out over own paid
paper part pass past pay plan play plus price put puts queue quiet rate rated real red risk role roles room round
rules run runs safe sale same say sell sent set she short side size so sold some soon spent stake state still
stock stop stuck such sum tell ten test than that the them then there these they thing think this three time to
today token top total trade trend turn two up us use used very view voice wait was way we week well went were what
due review buys sells stocks reviewed there orders fills trades cost costs gains losses loss price prices market first
account alone also always around after again ago before both calls limit limits lots tax times total value values
asked money ready rules short shares stops plans tool tools turn turns user users voice weak early late
when which who whom why win wins with work worth year yet you your zero
"""
_CAPITALIZED = """
april august brier december desk dollars  february fills friday give holdings january july june march may
monday november october orders please positions pounds runs saturday september show slack status sunday telegram
thanks thursday tokens trader trades tuesday wednesday what when where which whose
"""
_OF_WHY = """
a again and any approve approved approving are aren at be been behind being block blocked bought buy buying buys by
cancel canceled cancelled caution choose chose chosen close closed come decide decided decision denial denied deny desk
did didn didnt do does doesn don enter entered exit exited for from had has hasn have held hold holding holds how i
ignore ignored in is isn it its just led long made make my new no not of on only open opened or order ordered orders our
own owned pass passed pick picked portfolio position purchase purchased rate rated rating reason reasons recommended
reduce reduced refuse refused reject rejected s sale sell selling sells shares skip skipped so sold still stock t take
taken that the their then there this to took trade traded trader us verdict was wasn wasnt we were weren what why with
yet you
"""

# In capitals; a known symbol counts nevertheless where it is written so.
NO_SYMBOL = frozenset(_NO_SYMBOL.split())
# In small letters.
COMMON = frozenset(_COMMON.split())
# With a capital, and the name of no company.
CAPITALIZED = frozenset(
    (_CAPITALIZED + " jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri").split()
)
# What a reason is told of: a question why with another word is of another thing, such as a price that fell.
OF_WHY = frozenset(_OF_WHY.split())
