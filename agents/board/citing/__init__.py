"""The tests of a claim: is it copied, does it name its signal, are its figures there."""
