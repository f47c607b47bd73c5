# SPDX-License-Identifier: GPL-2.0-only
"""The HTML report of scripts/plot.py --html."""
