"""Play money on questions of event markets: sized by a fraction of Kelly, paid out once. There is no broker for it."""
