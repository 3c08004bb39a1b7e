"""The Gomocup (Piskvork) protocol: our engine, and a client for other engines."""
