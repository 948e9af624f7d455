"""`python -m streamnb` is the command `streamnb`."""

from streamnb.cli import main

main()
