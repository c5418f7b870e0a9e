"""Contract of operators: frozen parameters, a declared state, a pure step; and checks of what they are given."""
