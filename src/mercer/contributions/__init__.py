"""f(x) taken apart: by features, by coordinates; and the heaviest features of f."""
