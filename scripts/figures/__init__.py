# SPDX-License-Identifier: GPL-2.0-only
"""The pictures of scripts/plot.py, one module per family."""
