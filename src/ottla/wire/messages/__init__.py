"""One module for each API key with the classes of its request and response, and one for each stored record.

All of it is written by ``scripts/wire_messages.py`` from the message table (``make wire``). Import the module you need:
one takes well under a millisecond, all of them about a tenth of a second.
"""
