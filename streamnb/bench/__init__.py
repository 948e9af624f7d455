"""How fast the learners are, as ratios to river and scikit-learn measured in the same run."""
