/* Made by `header` in ../protocol.py from cosim/contract/link.py. */
#include <stdint.h>

#define LINK_FIELDS 7
/* integers per unit, least and most, and whether more is sent as 0: not limited */
#define LINK_FORMS {{1.0, 0.0, 1000000000000.0, 1}, {1000000.0, 0.0, 60.0, 0}, {1000000.0, 0.0, 60.0, 0}, {1000000.0, 0.0, 1.0, 0}, {1000.0, 1.0, 1000000.0, 0}, {1000000.0, 0.0, 1.0, 0}, {1000000.0, 0.0, 1.0, 0}}
#define MAX_LIMIT UINT64_C(1073741824) /* B */
#define LEAST_QUEUE UINT64_C(16000) /* B */

typedef struct {
    uint64_t rate, delay, jitter, loss, burst, reorder, duplicate;
} link_state;

typedef struct {
    uint32_t kind, port;
    int32_t other, unused;
    double queue;
    union {
        struct {
            double rate, delay, jitter, loss, burst, reorder, duplicate;
        } row;
        double values[LINK_FIELDS];
    };
} engine_command;

typedef struct {
    char mark[4];
    uint32_t pairs;
    double lag_mean;
    double lag_max;
    double lag_at;
    double memory;
    uint64_t received;
    uint64_t delivered;
    uint64_t lost;
    uint64_t refused;
    uint64_t undelivered;
    uint64_t overflowed;
    uint64_t bad;
    double cpu;
} engine_report;

typedef struct {
    uint32_t sender, receiver;
    uint64_t frames, bytes, lost, dropped;
} engine_pair;

#define REPORT_MARK "link"
