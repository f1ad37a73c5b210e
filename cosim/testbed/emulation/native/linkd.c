/* linkd: an engine that imposes delay, loss and rate on the frames of TAPs. The words that it speaks stand in
 * ../protocol.py, the rules of the links in switch.h. One thread, epoll and a timer.
 *
 *     linkd --control=FD [--seed=N] [--wait=US]
 */
#define _GNU_SOURCE
#include "switch.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define BATCH 32    /* frames of a port before the next port's turn */
#define CHUNK 1024  /* commands before frames have their turn */
#define DESCRIPTORS 4
#define PULSE 10000000u /* ns between looks at the clock: a longer gap is a standstill */
#define SLEEP 10000u /* ns: to sleep for less takes longer than to look again */
#define NICE (-10) /* other programs of a busy machine would add delays of milliseconds */

enum { COMMANDS = SWITCH_PORTS, CONTROL, TIMER }; /* what epoll says; below: a port */

static ether_switch *the_switch;
static int descriptors[SWITCH_PORTS];
static int poller, control = -1, timer;
static uint64_t bad;
static bool ended;

static void fail(const char *what)
{
    fprintf(stderr, "linkd: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SWITCH_SECOND + (uint64_t)t.tv_nsec;
}

static void unblock(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        fail("descriptor");
}

static void watch(int fd, uint32_t what)
{
    struct epoll_event e = {.events = EPOLLIN, .data = {.u32 = what}};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e) < 0)
        fail("epoll");
}

/* Ports */

static void detach(uint32_t port)
{
    int fd = descriptors[port];
    switch_detach(the_switch, port);
    if (fd < 0)
        return;
    epoll_ctl(poller, EPOLL_CTL_DEL, fd, NULL); /* closing does not: there may be copies */
    close(fd);
    descriptors[port] = -1;
}

static bool attach(uint32_t port, int fd, const uint8_t *mac)
{
    struct epoll_event e = {.events = EPOLLIN, .data = {.u32 = port}};
    int flags = fcntl(fd, F_GETFL);
    detach(port);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e) < 0) {
        close(fd);
        return false;
    }
    descriptors[port] = fd;
    switch_attach(the_switch, port, mac);
    return true;
}

static bool write_frame(void *context, uint32_t port, const uint8_t *frame, uint32_t length)
{
    (void)context;
    return write(descriptors[port], frame, length) >= 0; /* not when the interface is down or gone */
}

static void read_port(uint32_t port)
{
    static uint8_t frame[SWITCH_FRAME];
    for (int i = 0; i < BATCH && descriptors[port] >= 0; i++) {
        ssize_t length = read(descriptors[port], frame, sizeof frame);
        if (length < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (length <= 0) {
            detach(port); /* the device is gone */
            return;
        }
        switch_offer(the_switch, now(), port, frame, (uint32_t)length);
    }
}

/* Take one packet of the control socket; false: there is none. */
static bool take_packet(void)
{
    uint8_t data[64];
    union {
        char room[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
        struct cmsghdr aligned;
    } ancillary;
    struct iovec part = {data, sizeof data};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = ancillary.room, .msg_controllen = sizeof ancillary.room};
    int got[DESCRIPTORS];
    size_t count = 0;
    ssize_t length = recvmsg(control, &message, MSG_CMSG_CLOEXEC);

    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    for (struct cmsghdr *c = length < 0 ? NULL : CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t held = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        if (held > DESCRIPTORS - count)
            held = DESCRIPTORS - count;
        memcpy(got + count, CMSG_DATA(c), held * sizeof(int));
        count += held;
    }
    if (length <= 0 && !count) {
        ended = true; /* our parent is gone */
        return false;
    }
    uint32_t port = SWITCH_PORTS;
    if (length >= 4)
        port = data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
    if (port < SWITCH_PORTS && length == 10 && count == 1) {
        bad += !attach(port, got[--count], data + 4);
    } else if (port < SWITCH_PORTS && length == 4 && !count) {
        detach(port);
    } else {
        bad++;
    }
    while (count)
        close(got[--count]);
    return true;
}

/* Commands */

static bool set_link(const engine_command *c)
{
    static const struct {
        double scale, least, most;
        bool unlimited;
    } forms[LINK_FIELDS] = LINK_FORMS;
    uint64_t value[LINK_FIELDS];
    link_state state;
    if (c->other < 0 || c->other >= SWITCH_PORTS || (uint32_t)c->other == c->port || !(c->queue >= 0.0))
        return false;
    for (int k = 0; k < LINK_FIELDS; k++) {
        double v = c->values[k], most = forms[k].most, scale = forms[k].scale;
        if (!(v >= 0.0) || (v > 0.0 && v < forms[k].least)) /* or it is no number */
            return false;
        if (forms[k].unlimited) { /* what is below 1 would become 0 */
            value[k] = v > most ? 0 : v * scale < 1.0 ? 1 : (uint64_t)(v * scale);
        } else {
            value[k] = (uint64_t)(v > most ? most * scale : v * scale + 0.5);
        }
    }
    memcpy(&state, value, sizeof state);
    if (!(c->row.rate > 0.0) || c->row.loss >= 1.0) { /* down */
        memset(&state, 0, sizeof state);
        state.loss = SWITCH_ALL_LOST;
    }
    double waiting = (double)state.rate * c->queue / 8.0;
    uint64_t limit = waiting < (double)MAX_LIMIT ? (uint64_t)waiting : MAX_LIMIT;
    return switch_link(the_switch, c->port, (uint32_t)c->other, &state, limit > LEAST_QUEUE ? limit : LEAST_QUEUE);
}

static bool apply(const engine_command *c)
{
    if (c->kind == 'Q')
        return ended = true;
    if (c->port >= SWITCH_PORTS)
        return false;
    switch (c->kind) {
    case 'L':
        return set_link(c);
    case 'C':
        if (c->other < -1 || c->other >= SWITCH_PORTS)
            return false;
        switch_channel(the_switch, c->port, c->other);
        return true;
    case 'B':
        if (c->other < 0 || c->other > 1)
            return false;
        switch_cell(the_switch, c->port, c->other == 1);
        return true;
    default:
        return c->kind == 'P'; /* positions are for engines with a radio of their own */
    }
}

static void take_commands(void)
{
    static engine_command commands[CHUNK];
    static size_t length; /* B of them */
    ssize_t got = read(0, (char *)commands + length, sizeof commands - length);
    if (got == 0)
        ended = true;
    if (got <= 0)
        return;
    length += (size_t)got;
    size_t whole = length / sizeof *commands;
    for (size_t i = 0; i < whole; i++)
        bad += !apply(commands + i);
    length -= whole * sizeof *commands;
    memmove(commands, commands + whole, length);
}

/* Statistics */

static char *output;
static size_t output_length, output_room, output_sent;

static void say(const void *data, size_t length)
{
    if (output_length + length > output_room) {
        size_t room = 2 * output_room + 4096;
        char *grown = realloc(output, room);
        if (!grown)
            fail("memory");
        output = grown;
        output_room = room;
    }
    memcpy(output + output_length, data, length);
    output_length += length;
}

static void compose(void)
{
    switch_count *c = switch_counts(the_switch);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                 (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    double mean = c->lag_count ? (double)c->lag_sum / (double)c->lag_count : 0.0;
    engine_report report = {
        .mark = REPORT_MARK,
        .lag_mean = mean / 1e9,
        .lag_max = (double)c->lag_max / 1e9,
        .lag_at = (double)c->lag_at / 1e9,
        .memory = (double)used.ru_maxrss * 1024.0,
        .received = c->received,
        .delivered = c->delivered,
        .lost = c->lost,
        .refused = c->refused,
        .undelivered = c->undelivered,
        .overflowed = c->overflowed,
        .bad = bad,
        .cpu = cpu,
    };
    c->lag_sum = c->lag_max = c->lag_count = 0;
    say(&report, sizeof report);
    engine_pair pair;
    pair_count p;
    while (switch_changed(the_switch, &pair.sender, &pair.receiver, &p)) {
        pair.frames = p.frames;
        pair.bytes = p.bytes;
        pair.lost = p.lost;
        pair.dropped = p.dropped;
        say(&pair, sizeof pair);
        report.pairs++;
    }
    memcpy(output, &report, sizeof report); /* there is one report at a time */
}

/* Write a report; none if the last one was not read. */
static void tell(void)
{
    if (output_sent == output_length) {
        output_sent = output_length = 0;
        compose();
    }
    while (output_sent < output_length) {
        ssize_t wrote = write(1, output + output_sent, output_length - output_sent);
        if (wrote < 0)
            return;
        output_sent += (size_t)wrote;
    }
}

/* Frames were read that may have waited for so long since we did not run. */
static void late(uint64_t stood, uint64_t at)
{
    switch_count *c = switch_counts(the_switch);
    if (stood <= c->lag_max)
        return;
    c->lag_max = stood;
    c->lag_at = at;
}

/* Wait for what there is to read until a time of the clock. */
static int until_ready(struct epoll_event *events, int most, uint64_t until)
{
    uint64_t at = now();
    if (until < at + SLEEP)
        return epoll_wait(poller, events, most, 0);
    static uint64_t set; /* what the timer is set to */
    static bool timed = true;
#ifdef SYS_epoll_pwait2 /* Linux 5.11: three calls fewer for each frame that waits */
    if (timed) {
        struct timespec wait = {(time_t)((until - at) / SWITCH_SECOND), (long)((until - at) % SWITCH_SECOND)};
        int count = (int)syscall(SYS_epoll_pwait2, poller, events, most, &wait, NULL, 0);
        if (count >= 0 || (errno != ENOSYS && errno != EPERM))
            return count;
        timed = false; /* an old kernel, or a filter of system calls that does not know it */
    }
#else
    timed = false;
#endif
    if (until != set) {
        struct itimerspec wake = {.it_value = {(time_t)(until / SWITCH_SECOND), (long)(until % SWITCH_SECOND)}};
        timerfd_settime(timer, TFD_TIMER_ABSTIME, &wake, NULL);
        set = until;
    }
    int count = epoll_wait(poller, events, most, -1);
    uint64_t expirations;
    if (read(timer, &expirations, sizeof expirations) > 0)
        set = 0;
    return count;
}

static void run(void)
{
    uint64_t telling = now() + SWITCH_SECOND, woke = now(), stood = 0;
    tell();
    while (!ended) {
        struct epoll_event events[64];
        uint64_t due = switch_next(the_switch), until = due < telling ? due : telling;
        uint64_t slept = now(), pulse = (slept / PULSE + 1) * PULSE, received = switch_counts(the_switch)->received;
        if (pulse < until)
            until = pulse;
        int count = until_ready(events, 64, until);
        stood += slept - woke; /* how long frames may have waited for us: since we had looked last, */
        woke = now();
        if (woke > until)
            stood += woke - until; /* but for the time that we slept as we should */
        switch_deliver(the_switch, woke);
        for (int i = 0; i < count; i++) {
            uint32_t what = events[i].data.u32;
            if (what < SWITCH_PORTS)
                read_port(what);
            else if (what == COMMANDS)
                take_commands();
            else if (what == CONTROL)
                while (take_packet())
                    ;
        }
        switch_deliver(the_switch, now());
        uint64_t done = now();
        stood += done - woke; /* wherever in between we stood still */
        woke = done;
        if (switch_counts(the_switch)->received != received)
            late(stood, done);
        if (count >= 0) /* else we were stopped, and have not looked yet */
            stood = 0;
        if (done >= telling) {
            tell();
            telling = telling + SWITCH_SECOND > now() ? telling + SWITCH_SECOND : now();
        }
    }
}

static bool option(const char *argument, const char *name, uint64_t *value)
{
    size_t length = strlen(name);
    if (strncmp(argument, name, length))
        return false;
    const char *text = argument + length;
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return isdigit((unsigned char)*text) && !*end && !errno;
}

/* Needs CAP_SYS_NICE; without it the lag tells how late frames are. */
static void prioritise(void)
{
    setpriority(PRIO_PROCESS, 0, NICE);
    /* Where the scheduler groups processes by session, that holds within a session only. */
    FILE *group = getsid(0) == getpid() ? fopen("/proc/self/autogroup", "w") : NULL;
    if (group) {
        fprintf(group, "%d", NICE);
        fclose(group);
    }
}

int main(int count, char **arguments)
{
    uint64_t seed = 0, wait = 1000000, fd = UINT64_MAX;
    for (int i = 1; i < count; i++) {
        if (!option(arguments[i], "--control=", &fd) && !option(arguments[i], "--seed=", &seed) &&
            !option(arguments[i], "--wait=", &wait)) {
            fprintf(stderr, "linkd: not an option: %s\n", arguments[i]);
            return 2;
        }
    }
    if (fd > 1 << 20 || wait > UINT64_C(1000000000000)) {
        fprintf(stderr, "linkd: --control=FD is needed; --wait is at most 10^12; linkd is started by a backend\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_TIMERSLACK, 1); /* ns: the default of 50 us is delay that nobody asked for */
    signal(SIGPIPE, SIG_IGN);
    prioritise();
    control = (int)fd;
    for (size_t i = 0; i < SWITCH_PORTS; i++)
        descriptors[i] = -1;
    the_switch = switch_new(seed, wait * 1000, write_frame, NULL);
    poller = epoll_create1(EPOLL_CLOEXEC);
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (!the_switch || poller < 0 || timer < 0)
        fail("start");
    unblock(0);
    unblock(1);
    unblock(control);
    watch(0, COMMANDS);
    watch(control, CONTROL);
    watch(timer, TIMER);
    run();
    for (uint32_t port = 0; port < SWITCH_PORTS; port++)
        detach(port);
    switch_free(the_switch);
    free(output);
    close(timer);
    close(poller);
    return 0;
}
