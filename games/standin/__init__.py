"""A stand-in for Oracle of Seasons: facts of its rooms, memory images, rules, and a ROM of our own.

Nothing here is data of the commercial game beyond facts (numbers of metatiles, addresses, what they do). What
is tested on it was tested on it and not on the game.
"""
