"""Problems as data, and the algorithms that solve them."""
