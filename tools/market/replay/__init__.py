"""The replay market: real daily prices of 2009 and 2010, with nothing later than its clock visible."""
