"""Which environment variables a handler's process sees: those known to be harmless, and those that it declares.

Every other variable may hold a secret. Those of tasks are never seen: a task gets its own with its params.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from holdfast.define.registry import PROCESS, Handler
from holdfast.environment import SECRET, everything

HARMLESS = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "TZ", "TERM", "NO_COLOR", "TMPDIR", "TMP", "TEMP",
    "LANG", "LANGUAGE", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME",
    "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH", "MALLOC_ARENA_MAX",
    "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONHASHSEED", "PYTHONWARNINGS", "PYTHONFAULTHANDLER",
    "PYTHONDEVMODE", "PYTHONMALLOC", "PYTHONTRACEMALLOC",
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMEXPR_MAX_THREADS",
    "VECLIB_MAXIMUM_THREADS", "CUDA_VISIBLE_DEVICES",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "GDAL_DATA", "PROJ_DATA", "PROJ_LIB",
})  # fmt: skip


def declared(handler: Handler) -> tuple[str, ...] | None:
    """The names that the handler declares; None: it normally runs in threads, so its process sees all variables too."""
    return tuple(sorted(handler.environment)) if handler.isolation == PROCESS else None


def visible(names: tuple[str, ...] | None) -> dict[str, str]:
    """The variables of a process for which these names are declared."""
    return {
        variable: value
        for variable, value in everything().items()
        if not variable.startswith(SECRET)
        and (names is None or variable in HARMLESS or any(fnmatchcase(variable, name) for name in names))
    }
