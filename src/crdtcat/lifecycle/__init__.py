"""How tables and their logs begin and end: incarnations of a name, horizons, closed times, what is let go."""
