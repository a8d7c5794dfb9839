"""Models in production: scoring, calibration, retrieval and what goes around them."""
