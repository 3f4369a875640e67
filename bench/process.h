/* bench/process.h - what a process holds, from /proc. */
#ifndef FT_BENCH_PROCESS_H
#define FT_BENCH_PROCESS_H

#include <stdio.h>
#include <sys/types.h>

/* Resident memory in KiB; 0: the process has exited. */
static inline long resident_kib(pid_t pid)
{
    char path[64], line[200];
    long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1) break;
    if (f) fclose(f);
    return kib;
}

#endif
