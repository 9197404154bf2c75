"""`mercer lab`: the laboratory, a local page that computes with this library."""

from __future__ import annotations

import argparse
import json
import os
import sys

from mercer.laboratory.launch import serve


def run(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""

    def tell(address: str) -> None:
        if options.json:
            print(json.dumps({"address": address}), flush=True)
        elif not options.quiet:
            print(f"The laboratory is at {address}\nCtrl-C ends it.", flush=True)

    opens = not options.no_browser
    serve(options.port, opens=opens, attached=options.attached, tell=tell)
    # Nothing is to be written any more, and to free all modules takes a second.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
