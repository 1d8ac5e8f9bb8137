"""Runs a script of Python without the time of loading its libraries."""

import os
import runpy
import signal
import sys
import tempfile
import traceback
import warnings

from attn import TIMEOUT, Run

USUAL_WARNINGS = list(warnings.filters)  # unittest adds its own later


def run_loaded(script, arguments, folder, environment, stdin=b"", prepare=None):
    """Runs a script in a copy of this process, which has loaded the libraries already. `prepare` is
    called in the copy before."""
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as out, \
            tempfile.TemporaryFile() as err:
        source.write(stdin)
        source.seek(0)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for number, stream in enumerate((source, out, err)):
                    os.dup2(stream.fileno(), number)
                sys.stdin, sys.stdout, sys.stderr = (open(0), open(1, "w"), open(2, "w"))
                signal.alarm(TIMEOUT)
                os.chdir(folder)
                os.environ.clear()
                os.environ.update(environment)
                warnings.filters[:] = USUAL_WARNINGS
                # As Python begins with a script.
                sys.argv = [str(script), *map(str, arguments)]
                sys.path[0] = os.path.dirname(script)
                if prepare:
                    prepare()
                runpy.run_path(str(script), run_name="__main__")
                status = 0
            except SystemExit as end:
                status = end.code or 0
                if isinstance(status, str):
                    print(status, file=sys.stderr)
                    status = 1
            except BaseException:  # pylint: disable=broad-except
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        return Run(status, out.read(), err.read().decode())
