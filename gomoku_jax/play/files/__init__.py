"""Game files: SGF, Piskvork `.psq`, move strings, opening files."""
