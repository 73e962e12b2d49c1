"""Wrong rules made from right ones: which of them do a pack's tests and `verify` notice?"""
