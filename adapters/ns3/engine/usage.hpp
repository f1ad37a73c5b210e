// SPDX-License-Identifier: GPL-2.0-only
// What this process has taken so far.
#pragma once

#include <sys/resource.h>

namespace engine {

struct Usage {
    double cpu;     // s
    double memory;  // MiB

    static Usage Now() {
        rusage use{};
        getrusage(RUSAGE_SELF, &use);
        return {double(use.ru_utime.tv_sec + use.ru_stime.tv_sec) + (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6,
                use.ru_maxrss / 1024.0};
    }
};

}  // namespace engine
