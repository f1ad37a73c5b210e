/* A switch whose every ordered pair of ports is a link of its own: the rules of ../switch.py, to the bit.
 * No clock and no devices in here; times are nanoseconds of any clock that does not go back. */
#ifndef COSIM_SWITCH_H
#define COSIM_SWITCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link_state.h"

#define SWITCH_PORTS 1024
#define SWITCH_FRAME 65536      /* B, the longest frame */
#define SWITCH_ALL_LOST 1000000 /* ppm */
#define SWITCH_SECOND 1000000000u
#define SWITCH_NEVER UINT64_MAX

typedef struct {
    uint64_t frames, bytes, lost, dropped;
} pair_count;

typedef struct {
    uint64_t received, delivered, lost, refused, undelivered; /* frames */
    uint64_t overflowed;                                      /* of those refused: for want of memory, not of queue */
    uint64_t lag_sum, lag_max, lag_count;                     /* ns, ns, frames since the last reset */
    uint64_t lag_at;                                          /* ns, when the largest was seen */
} switch_count;

typedef struct ether_switch ether_switch;

/* Whether the port took the frame. */
typedef bool (*switch_write)(void *context, uint32_t port, const uint8_t *frame, uint32_t length);

/* NULL when there is no memory. */
ether_switch *switch_new(uint64_t seed, uint64_t wait, switch_write write, void *context);
void switch_free(ether_switch *s);

/* Ports are below SWITCH_PORTS; the callers have checked it. */
void switch_attach(ether_switch *s, uint32_t port, const uint8_t mac[6]);
void switch_detach(ether_switch *s, uint32_t port);
void switch_channel(ether_switch *s, uint32_t port, int channel); /* below SWITCH_PORTS, negative: none */
/* Links from a cell's port share one transmitter, links to it another. */
void switch_cell(ether_switch *s, uint32_t port, bool cell);
/* `state` lies within LINK_BOUNDS, and `limit` is at most 2^30 B; false when there is no memory. */
bool switch_link(ether_switch *s, uint32_t sender, uint32_t receiver, const link_state *state, uint64_t limit);

void switch_offer(ether_switch *s, uint64_t now, uint32_t sender, const uint8_t *frame, uint32_t length);
void switch_deliver(ether_switch *s, uint64_t now);
uint64_t switch_next(const ether_switch *s); /* SWITCH_NEVER: no frame is on its way */
size_t switch_waiting(const ether_switch *s);

switch_count *switch_counts(ether_switch *s);
/* The next pair whose counts have changed since it was last asked for; false: no more. */
bool switch_changed(ether_switch *s, uint32_t *sender, uint32_t *receiver, pair_count *count);

#endif
