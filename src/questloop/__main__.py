"""The program `questloop`: Ctrl-C is answered before anything large is imported."""

import signal


def main() -> None:
    """Run a command of the command line."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends without a traceback while the guard is read
    from questloop.cli.stopping import guarded

    signal.signal(signal.SIGINT, before)
    with guarded():
        from questloop.cli.app import main as run

        run()


if __name__ == "__main__":
    main()
