"""The whole table of cases: whoever runs all operators imports it here, so that no test has fewer than another."""

import operator_cases_combine  # noqa: F401  (it fills the table)
import operator_cases_flat  # noqa: F401  (it fills the table)
import operator_cases_groups  # noqa: F401  (it fills the table)
import operator_cases_inner  # noqa: F401  (it fills the table)
import operator_cases_picking  # noqa: F401  (it fills the table)
import operator_cases_share  # noqa: F401  (it fills the table)
import operator_cases_time  # noqa: F401  (it fills the table)
import operator_cases_utility  # noqa: F401  (it fills the table)
from operator_cases import CASES, Case, lanes

__all__ = ["CASES", "Case", "lanes"]
