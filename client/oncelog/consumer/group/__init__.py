"""This package makes a consumer a member of a group: it joins, commits and hands over."""
