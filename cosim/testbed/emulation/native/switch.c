#include "switch.h"

#include <stdlib.h>
#include <string.h>

#define HEADER 14u                        /* B of an Ethernet header */
#define MOST ((uint64_t)256 << 20)        /* B on their way, all links together */
#define STEP UINT64_C(0x9E3779B97F4A7C15) /* splitmix64 */
#define SLOTS (4 * SWITCH_PORTS)          /* of the table of MACs; a power of two */

/* A frame that waits for the air. */
typedef struct waiting_frame {
    struct waiting_frame *next;
    uint64_t took, since; /* ns of transmission, when it came */
    uint32_t length;
    uint8_t data[];
} waiting_frame;

/* Frames of a station for one receiver, or for all. */
typedef struct {
    waiting_frame *first, *last;
    uint64_t tag, held; /* ns of air: virtual start of the next frame, in the queue */
} flow;

/* A port of a channel with its queues. */
typedef struct {
    uint64_t tag, virtual_time; /* ns of air */
    uint32_t count;
    uint16_t active[SWITCH_PORTS + 1]; /* receivers with frames that wait; SWITCH_PORTS: all */
    flow group;
} station;

/* The air of a channel. */
typedef struct {
    uint64_t free_at, virtual_time; /* ns, ns of air */
    uint32_t count;
    uint16_t active[SWITCH_PORTS]; /* ports with frames that wait */
} medium;

typedef struct {
    flow queue;
    uint64_t key; /* of the pair's random numbers */
    link_state state; /* bit/s, and ns, ns, ppm, thousandths of a frame, ppm */
    uint64_t room, free_at, last, offered;
    pair_count count;
    uint64_t leave, enter; /* of 2^32: chance that a frame ends a burst of losses or begins one, 0: no bursts */
    bool changed, bad;
} link;

typedef struct {
    uint64_t due, serial;
    uint8_t *frame;
    uint32_t length;
    uint16_t sender, receiver;
} event;

struct ether_switch {
    switch_write write;
    void *context;
    uint64_t seed, wait, serial, held;
    event *way; /* a binary heap */
    size_t waiting, room;
    uint32_t (*changed)[2]; /* pairs whose counts have changed */
    size_t changes, changes_room;
    switch_count count;
    medium air[SWITCH_PORTS];
    station *stations[SWITCH_PORTS];
    uint32_t channels; /* all channels are below */
    int channel[SWITCH_PORTS];
    bool cell[SWITCH_PORTS];
    uint64_t down[SWITCH_PORTS], up[SWITCH_PORTS]; /* when the transmitters from and to a cell's port are free */
    bool open[SWITCH_PORTS];
    uint8_t mac[SWITCH_PORTS][6];
    uint16_t slot[SLOTS];                    /* port + 1 by hash of the MAC, 0: free */
    link *links[SWITCH_PORTS][SWITCH_PORTS]; /* sender, receiver */
};

static uint64_t mix(uint64_t state)
{
    state += STEP;
    state = (state ^ (state >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    state = (state ^ (state >> 27)) * UINT64_C(0x94D049BB133111EB);
    return state ^ (state >> 31);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

ether_switch *switch_new(uint64_t seed, uint64_t wait, switch_write write, void *context)
{
    ether_switch *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->seed = mix(seed);
    s->wait = wait;
    s->write = write;
    s->context = context;
    for (size_t i = 0; i < SWITCH_PORTS; i++)
        s->channel[i] = -1;
    return s;
}

static void clear(flow *f)
{
    while (f->first) {
        waiting_frame *w = f->first;
        f->first = w->next;
        free(w);
    }
}

void switch_free(ether_switch *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < SWITCH_PORTS; i++) {
        if (s->stations[i])
            clear(&s->stations[i]->group);
        free(s->stations[i]);
        for (size_t j = 0; j < SWITCH_PORTS; j++)
            if (s->links[i][j])
                clear(&s->links[i][j]->queue);
    }
    for (size_t i = 0; i < s->waiting; i++)
        free(s->way[i].frame);
    for (size_t i = 0; i < SWITCH_PORTS; i++)
        for (size_t j = 0; j < SWITCH_PORTS; j++)
            free(s->links[i][j]);
    free(s->changed);
    free(s->way);
    free(s);
}

static size_t slot_of(const uint8_t *mac)
{
    uint64_t key = 0;
    memcpy(&key, mac, 6);
    return (size_t)(mix(key) % SLOTS);
}

/* The port with that MAC, SWITCH_PORTS: none. The table has four slots a port, so there is a free one. */
static uint32_t find(const ether_switch *s, const uint8_t *mac)
{
    for (size_t i = slot_of(mac); s->slot[i]; i = (i + 1) % SLOTS)
        if (!memcmp(s->mac[s->slot[i] - 1], mac, 6))
            return s->slot[i] - 1u;
    return SWITCH_PORTS;
}

/* Of several ports that say they have one MAC, the lowest is found. */
static void know(ether_switch *s)
{
    memset(s->slot, 0, sizeof s->slot);
    for (uint32_t port = 0; port < SWITCH_PORTS; port++) {
        if (!s->open[port] || find(s, s->mac[port]) != SWITCH_PORTS)
            continue;
        size_t i = slot_of(s->mac[port]);
        while (s->slot[i])
            i = (i + 1) % SLOTS;
        s->slot[i] = (uint16_t)(port + 1);
    }
}

void switch_attach(ether_switch *s, uint32_t port, const uint8_t mac[6])
{
    s->open[port] = true;
    memcpy(s->mac[port], mac, 6);
    know(s);
}

void switch_detach(ether_switch *s, uint32_t port)
{
    s->open[port] = false;
    know(s);
}


void switch_cell(ether_switch *s, uint32_t port, bool cell)
{
    if (!s->cell[port] || !cell)
        s->down[port] = s->up[port] = 0;
    s->cell[port] = cell;
}

bool switch_link(ether_switch *s, uint32_t sender, uint32_t receiver, const link_state *state, uint64_t limit)
{
    link *l = s->links[sender][receiver];
    if (!l) {
        l = calloc(1, sizeof *l);
        if (!l)
            return false;
        l->key = mix(s->seed ^ ((uint64_t)sender << 32 | receiver));
        s->links[sender][receiver] = l;
    }
    l->state = *state;
    l->state.delay *= 1000; /* us to ns */
    l->state.jitter *= 1000;
    uint64_t loss = state->loss;
    l->leave = state->burst && loss && loss < SWITCH_ALL_LOST ? (UINT64_C(1000) << 32) / state->burst : 0;
    l->enter = l->leave ? l->leave * loss / (SWITCH_ALL_LOST - loss) : 0;
    l->bad = l->bad && l->leave;
    l->room = 0;
    if (state->rate) {
        l->room = limit * 8 * SWITCH_SECOND / state->rate; /* below 2^63 */
        if (l->room > s->wait)
            l->room = s->wait;
    }
    return true;
}

static bool before(const event *a, const event *b)
{
    return a->due < b->due || (a->due == b->due && a->serial < b->serial);
}

static bool push(ether_switch *s, event e)
{
    if (s->waiting == s->room) {
        size_t room = s->room ? 2 * s->room : 1024;
        event *way = realloc(s->way, room * sizeof *way);
        if (!way)
            return false;
        s->way = way;
        s->room = room;
    }
    size_t i = s->waiting++;
    for (; i && before(&e, &s->way[(i - 1) / 2]); i = (i - 1) / 2)
        s->way[i] = s->way[(i - 1) / 2];
    s->way[i] = e;
    return true;
}

static event pop(ether_switch *s)
{
    event first = s->way[0], e = s->way[--s->waiting];
    size_t i = 0;
    for (size_t child = 1; child < s->waiting; child = 2 * i + 1) {
        if (child + 1 < s->waiting && before(&s->way[child + 1], &s->way[child]))
            child++;
        if (!before(&s->way[child], &e))
            break;
        s->way[i] = s->way[child];
        i = child;
    }
    s->way[i] = e;
    return first;
}

/* Remember that counts of a pair have changed; without memory they are told later. */
static void touch(ether_switch *s, uint32_t sender, uint32_t receiver)
{
    link *l = s->links[sender][receiver];
    if (l->changed)
        return;
    if (s->changes == s->changes_room) {
        size_t room = s->changes_room ? 2 * s->changes_room : 256;
        uint32_t(*changed)[2] = realloc(s->changed, room * sizeof *changed);
        if (!changed)
            return;
        s->changed = changed;
        s->changes_room = room;
    }
    s->changed[s->changes][0] = sender;
    s->changed[s->changes++][1] = receiver;
    l->changed = true;
}

/* When a frame has been sent, SWITCH_NEVER when the queue refuses it. */
static uint64_t transmit(uint64_t now, uint64_t free_at, const link *l, uint32_t length)
{
    uint64_t begin = larger(now, free_at), took = (uint64_t)length * 8 * SWITCH_SECOND / l->state.rate;
    if (begin > now && begin - now + took > l->room)
        return SWITCH_NEVER;
    return begin + took;
}

static bool lost(link *l, uint64_t number)
{
    if (!l->state.loss)
        return false;
    uint64_t draw = mix(l->key + 2 * number * STEP) >> 32;
    if (!l->leave)
        return draw * SWITCH_ALL_LOST >> 32 < l->state.loss;
    l->bad = l->bad ? draw >= l->leave : draw < l->enter;
    return l->bad;
}

/* Put a frame on its way to arrive at `due`; what finds no memory is refused. */
static void carry(ether_switch *s, link *l, uint32_t sender, uint32_t receiver, const uint8_t *frame, uint32_t length,
                  uint64_t due)
{
    event e = {due, ++s->serial, malloc(length), length, (uint16_t)sender, (uint16_t)receiver};
    if (e.frame)
        memcpy(e.frame, frame, length);
    if (!e.frame || !push(s, e)) {
        free(e.frame);
        l->count.dropped++;
        s->count.refused++;
        s->count.overflowed++;
        return;
    }
    s->held += length;
}

/* Send a frame that left its transmitter at `sent` on its way. */
static void pass(ether_switch *s, uint32_t sender, uint32_t receiver, const uint8_t *frame, uint32_t length,
                 uint64_t sent)
{
    link *l = s->links[sender][receiver];
    uint64_t number = l->offered++;
    touch(s, sender, receiver);
    if (sent == SWITCH_NEVER || s->held + length > MOST) {
        l->count.dropped++;
        s->count.refused++;
        s->count.overflowed += sent != SWITCH_NEVER;
        return;
    }
    if (lost(l, number)) {
        l->count.lost++;
        s->count.lost++;
        return;
    }
    uint64_t due = sent, draw = l->state.jitter || l->state.reorder ? mix(l->key + (2 * number + 1) * STEP) : 0;
    if (!l->state.reorder || (draw & UINT32_MAX) * SWITCH_ALL_LOST >> 32 >= l->state.reorder) {
        due = sent + l->state.delay;
        if (l->state.jitter) {
            due += (draw >> 40) * (2 * l->state.jitter + 1) >> 24;
            due = due > sent + l->state.jitter ? due - l->state.jitter : sent;
        }
        l->last = due = larger(due, l->last);
    }
    carry(s, l, sender, receiver, frame, length, due);
    /* The upper half of this draw decides on losses. */
    if (l->state.duplicate && s->held + length <= MOST &&
        (mix(l->key + 2 * number * STEP) & UINT32_MAX) * SWITCH_ALL_LOST >> 32 < l->state.duplicate)
        carry(s, l, sender, receiver, frame, length, due);
}

static bool share(const ether_switch *s, uint32_t sender, uint32_t receiver)
{
    return s->channel[sender] >= 0 && s->channel[receiver] == s->channel[sender];
}

/* When the transmitter of a link outside of channels is free. */
static uint64_t *transmitter(ether_switch *s, uint32_t sender, uint32_t receiver)
{
    if (s->cell[sender])
        return &s->down[sender];
    return s->cell[receiver] ? &s->up[receiver] : &s->links[sender][receiver]->free_at;
}

/* Whether a group frame of the sender is sent to the receiver together with others. */
static bool together(const ether_switch *s, uint32_t sender, uint32_t receiver)
{
    const link *l = s->links[sender][receiver];
    return share(s, sender, receiver) && l->state.rate && l->state.loss < SWITCH_ALL_LOST;
}

/* Send a frame that left the air at `sent` on its way to its receiver, or to all that share it. */
static void pass_shared(ether_switch *s, uint32_t sender, uint32_t receiver, const uint8_t *frame, uint32_t length,
                        uint64_t sent)
{
    if (receiver < SWITCH_PORTS) {
        pass(s, sender, receiver, frame, length, sent);
        return;
    }
    for (uint32_t r = 0; r < SWITCH_PORTS; r++)
        if (s->links[sender][r] && s->open[r] && r != sender && together(s, sender, r))
            pass(s, sender, r, frame, length, sent);
}

static flow *flow_of(ether_switch *s, uint32_t sender, uint32_t receiver)
{
    return receiver < SWITCH_PORTS ? &s->links[sender][receiver]->queue : &s->stations[sender]->group;
}

/* Take the place `i` out of a list; its order does not matter. */
static void take_out(uint16_t *list, uint32_t *count, uint32_t i)
{
    list[i] = list[--*count];
}

/* Let the stations of a channel have the air up to `now`: of those that wait the one that has had least of it, and of
 * its receivers likewise. */
static void serve(ether_switch *s, int channel, uint64_t now)
{
    medium *air = &s->air[channel];
    while (air->count && air->free_at <= now) {
        uint32_t at = 0, to = 0;
        for (uint32_t i = 1; i < air->count; i++) {
            uint64_t a = s->stations[air->active[i]]->tag, b = s->stations[air->active[at]]->tag;
            if (a < b || (a == b && air->active[i] < air->active[at]))
                at = i;
        }
        uint32_t sender = air->active[at];
        station *one = s->stations[sender];
        for (uint32_t i = 1; i < one->count; i++) {
            uint64_t a = flow_of(s, sender, one->active[i])->tag, b = flow_of(s, sender, one->active[to])->tag;
            if (a < b || (a == b && one->active[i] < one->active[to]))
                to = i;
        }
        uint32_t receiver = one->active[to];
        flow *f = flow_of(s, sender, receiver);
        waiting_frame *w = f->first;
        uint64_t sent = SWITCH_NEVER;
        f->first = w->next;
        f->held -= w->took;
        s->held -= w->length;
        if (!f->first)
            take_out(one->active, &one->count, to);
        if (!one->count)
            take_out(air->active, &air->count, at);
        if (air->free_at - w->since <= s->wait) {
            air->virtual_time = one->tag;
            one->virtual_time = f->tag;
            one->tag += w->took;
            f->tag += w->took;
            sent = air->free_at += w->took;
        }
        pass_shared(s, sender, receiver, w->data, w->length, sent);
        free(w);
    }
}

/* Give a frame to the air that its sender shares; `l` has the rate, and how long the queue is. */
static void send_shared(ether_switch *s, uint64_t now, uint32_t sender, uint32_t receiver, const link *l,
                        const uint8_t *frame, uint32_t length)
{
    medium *air = &s->air[s->channel[sender]];
    uint64_t took = (uint64_t)length * 8 * SWITCH_SECOND / l->state.rate;
    if (!s->stations[sender])
        s->stations[sender] = calloc(1, sizeof(station));
    station *one = s->stations[sender];
    flow *f = one ? flow_of(s, sender, receiver) : NULL;
    bool queued = f && air->free_at > now && f->held + took > l->room; /* as much as the queue holds */
    bool full = !f || queued || s->held + length > MOST;
    waiting_frame *w = full ? NULL : malloc(sizeof *w + length);
    if (!w) {
        uint64_t refused = s->count.refused;
        pass_shared(s, sender, receiver, frame, length, SWITCH_NEVER);
        if (!queued)
            s->count.overflowed += s->count.refused - refused;
        return;
    }
    w->next = NULL;
    w->took = took;
    w->since = now;
    w->length = length;
    memcpy(w->data, frame, length);
    if (f->first) {
        f->last->next = w;
    } else {
        f->first = w;
        f->tag = larger(f->tag, one->virtual_time);
        if (!one->count) {
            one->tag = larger(one->tag, air->virtual_time);
            air->active[air->count++] = (uint16_t)sender;
        }
        one->active[one->count++] = (uint16_t)receiver;
    }
    f->last = w;
    f->held += took;
    s->held += length;
    air->free_at = larger(air->free_at, now);
    serve(s, s->channel[sender], now);
}

void switch_channel(ether_switch *s, uint32_t port, int channel)
{
    int old = s->channel[port];
    if (old == channel)
        return;
    station *one = s->stations[port];
    if (old >= 0 && one && one->count) { /* what waits there will not be sent */
        medium *air = &s->air[old];
        for (uint32_t i = 0; i < one->count; i++) {
            flow *f = flow_of(s, port, one->active[i]);
            for (waiting_frame *w = f->first; w; w = w->next) {
                s->held -= w->length;
                pass_shared(s, port, one->active[i], w->data, w->length, SWITCH_NEVER);
            }
            clear(f);
            f->held = 0;
        }
        one->count = 0;
        for (uint32_t i = 0; i < air->count; i++)
            if (air->active[i] == port) {
                take_out(air->active, &air->count, i);
                break;
            }
    }
    if (one)
        one->tag = 0;
    s->channel[port] = channel;
    if (channel >= 0 && (uint32_t)channel >= s->channels)
        s->channels = (uint32_t)channel + 1;
}

static void send_one(ether_switch *s, uint64_t now, uint32_t sender, uint32_t receiver, const uint8_t *frame,
                     uint32_t length)
{
    link *l = s->links[sender][receiver];
    uint64_t sent = now;
    if (l->state.loss < SWITCH_ALL_LOST && l->state.rate && share(s, sender, receiver)) {
        send_shared(s, now, sender, receiver, l, frame, length);
        return;
    }
    if (l->state.loss < SWITCH_ALL_LOST && l->state.rate) {
        uint64_t *free_at = transmitter(s, sender, receiver);
        sent = transmit(now, *free_at, l, length);
        if (sent != SWITCH_NEVER)
            *free_at = sent;
    }
    pass(s, sender, receiver, frame, length, sent);
}

static void send_group(ether_switch *s, uint64_t now, uint32_t sender, const uint8_t *frame, uint32_t length)
{
    const link *slowest = NULL;
    for (uint32_t r = 0; r < SWITCH_PORTS; r++) {
        const link *l = s->links[sender][r];
        if (!l || !s->open[r] || r == sender)
            continue;
        if (!together(s, sender, r))
            send_one(s, now, sender, r, frame, length);
        else if (!slowest || l->state.rate < slowest->state.rate)
            slowest = l;
    }
    if (!slowest)
        return;
    send_shared(s, now, sender, SWITCH_PORTS, slowest, frame, length);
}

void switch_offer(ether_switch *s, uint64_t now, uint32_t sender, const uint8_t *frame, uint32_t length)
{
    s->count.received++;
    if (s->channel[sender] >= 0)
        serve(s, s->channel[sender], now);
    if (length < HEADER || length > SWITCH_FRAME) {
        s->count.lost++;
    } else if (frame[0] & 1) {
        send_group(s, now, sender, frame, length);
    } else {
        uint32_t receiver = find(s, frame);
        if (receiver == SWITCH_PORTS || !s->links[sender][receiver])
            s->count.lost++;
        else
            send_one(s, now, sender, receiver, frame, length);
    }
}

void switch_deliver(ether_switch *s, uint64_t now)
{
    for (uint32_t channel = 0; channel < s->channels; channel++)
        serve(s, (int)channel, now);
    while (s->waiting && s->way[0].due <= now) {
        event e = pop(s);
        link *l = s->links[e.sender][e.receiver];
        uint64_t lag = now - e.due;
        s->held -= e.length;
        s->count.lag_sum += lag;
        s->count.lag_count++;
        if (lag > s->count.lag_max) {
            s->count.lag_max = lag;
            s->count.lag_at = now;
        }
        if (s->open[e.receiver] && s->write(s->context, e.receiver, e.frame, e.length)) {
            l->count.frames++;
            l->count.bytes += e.length;
            s->count.delivered++;
        } else {
            l->count.dropped++;
            s->count.undelivered++;
        }
        touch(s, e.sender, e.receiver);
        free(e.frame);
    }
}

uint64_t switch_next(const ether_switch *s)
{
    uint64_t next = s->waiting ? s->way[0].due : SWITCH_NEVER;
    for (uint32_t channel = 0; channel < s->channels; channel++)
        if (s->air[channel].count && s->air[channel].free_at < next)
            next = s->air[channel].free_at;
    return next;
}

size_t switch_waiting(const ether_switch *s)
{
    size_t waiting = s->waiting;
    for (uint32_t sender = 0; sender < SWITCH_PORTS; sender++)
        for (uint32_t i = 0; s->stations[sender] && i < s->stations[sender]->count; i++)
            for (const waiting_frame *w = s->stations[sender]->active[i] < SWITCH_PORTS
                                              ? s->links[sender][s->stations[sender]->active[i]]->queue.first
                                              : s->stations[sender]->group.first;
                 w; w = w->next)
                waiting++;
    return waiting;
}

switch_count *switch_counts(ether_switch *s)
{
    return &s->count;
}

bool switch_changed(ether_switch *s, uint32_t *sender, uint32_t *receiver, pair_count *count)
{
    if (!s->changes)
        return false;
    s->changes--;
    *sender = s->changed[s->changes][0];
    *receiver = s->changed[s->changes][1];
    link *l = s->links[*sender][*receiver];
    l->changed = false;
    *count = l->count;
    return true;
}
