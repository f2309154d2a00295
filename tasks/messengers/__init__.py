"""Messengers: people ask, approve and halt from a phone, in private chats that were paired from a terminal."""
