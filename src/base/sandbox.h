/* base/sandbox.h - rights that a running server does not need are given up, for all threads that
 * start from here on: Landlock for files and connections, seccomp for system calls. */
#ifndef FT_BASE_SANDBOX_H
#define FT_BASE_SANDBOX_H

#include "base/err.h"

typedef struct ft_sandbox {
    const char *const *folder; /* where files may be made, written and removed; NULLs are skipped */
    int n_folder;
    bool connect; /* TCP connections to others are allowed */
} ft_sandbox;

/* What the kernel could enforce. */
typedef struct ft_sandboxed {
    bool files;   /* no writing outside the folders, no programs are run */
    bool network; /* no TCP connections */
    bool calls;   /* system calls that a server never makes are refused */
} ft_sandboxed;

/* Files outside the folders can still be read; devices (/dev) and /proc can be used. What a kernel
 * does not know is left out and shows in *out. It cannot be undone. */
ft_status ft_sandbox_enter(const ft_sandbox *s, ft_sandboxed *out, ft_err *err);

#endif
