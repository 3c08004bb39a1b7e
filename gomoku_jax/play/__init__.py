"""Playing: terminal, web board, Gomocup engine, game files, environment adapters.

Everything here runs on the host, for people and other programs. The console command is in `cli`.
"""
