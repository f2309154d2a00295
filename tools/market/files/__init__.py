"""The files market: a user's own bars, headlines, option chains and earnings dates, with nothing later than its clock
visible."""
