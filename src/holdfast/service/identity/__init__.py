"""Who sends a request: keys, tokens and browser sessions; from where; and how often they may."""
