"""The game as other libraries' environments: Gymnasium, PettingZoo, pgx; each needs the extra of its name."""
