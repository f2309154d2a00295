"""Harvesters of daily bars, which compare a symbol with the whole universe."""
