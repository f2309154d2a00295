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
asked left money ready rules short shares stops plans tool tools turn turns user users voice weak early late
when which who whom why win wins with work worth year yet you your zero
"""
_CAPITALIZED = """
april august brier december desk dollars  february fills friday give holdings january july june march may
monday november october orders please positions pounds runs saturday september show slack status sunday telegram
thanks thursday tokens trader trades tuesday wednesday what when where which whose
"""
_OF_WHY = """
a again and any approve approved approving are aren at be been behind being block blocked bought buy buying buys by
cancel canceled cancelled caution choose chose chosen close closed come decide decided decision denial denied deny
desk did didn didnt do does doesn don enter entered exit exited for from had has hasn have held hold holding holds how
i ignore ignored in is isn it its just led long made make my new no not of on only open opened or order ordered orders
our own owned pass passed pick picked portfolio position purchase purchased rate rated rating reason reasons
recommended reduce reduced refuse refused reject rejected s sale sell selling sells shares skip skipped so sold still
stock t take taken that the their then there this to took trade traded trader us verdict was wasn wasnt we were weren
what why with yet you
"""

# In capitals; a known symbol counts nevertheless where it is written so.
NO_SYMBOL = frozenset(_NO_SYMBOL.split())
# In small letters.
COMMON = frozenset(_COMMON.split())
# With a capital, and the name of no company.
CAPITALIZED = frozenset(
    (_CAPITALIZED + " jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri").split()
)
_OF_ANY = """
a account accounts all an and any anything are as at be been being by can come could count current currently d desk
did do does doing done each ever every everything exactly far for from get gets give given go got had has have having
how i in is isn it its just let list ll m made make many me much my name new now number of on one or our out over
please re right s see show so some something still sum t tell that the them there these they this those to together
total up us ve was we were what whats whatever when why where which who whole whose with yet you your altogether asked
asks question
"""
_OF_ORDERS = """
answered answer approved approve blocked buy buys bought buying cancel cancelled canceled denials denial denied didn
didnt executed expired fail failed fill filled fills last latest missed money newest no not never open order ordered
orders outstanding pending place placed placing previewed purchase purchases recent refused rejected sale sales sell
sells selling sold sent shares share stock stocks state states submit submitted symbol symbols trade traded trades
unfilled unknown aren wasn weren waiting without working executions happened happen worth cost costs spent spend paid
pay price prices cash transactions transaction long short went through rejections cancellations denying close closed
"""
_OF_HELD = """
available balance biggest cash cost exposure heaviest held hold holding holdings largest lightest main money own owned
portfolio position positions share shares size smallest stock stocks symbol symbols tiniest top value worth no left
invested company companies names amount free need
"""
_OF_EQUITY = """
change changed down drawdown earn earned earnings equity gain gained gains gaining high highest in lose losing loss
losses lost low money p l pnl perform performance performed performing profit profits profitable return returned
returns up value water worth curve mark overall percent percentage are doing day moved move well bad good fallen fell
peak deep development develop developed
"""

# A question of an intent with another word is of another thing, such as why a price fell.
OF_INTENT: dict[str, frozenset[str]] = {
    "why": frozenset(_OF_WHY.split()),
    **dict.fromkeys(("orders", "fills"), frozenset((_OF_ANY + _OF_ORDERS).split())),
    "holdings": frozenset((_OF_ANY + _OF_HELD).split()),
    "equity": frozenset((_OF_ANY + _OF_EQUITY).split()),
    "fees": frozenset(
        (_OF_ANY + _OF_ORDERS + " fee fees commission commissions broker brokerage charged charge").split()
    ),
}
