/* linkd: an engine that imposes delay, loss and rate on the frames of TAPs. The words that it speaks stand in
 * ../protocol.py, the rules of the links in ../switch.py. One thread, epoll and a timer.
 *
 *     linkd --control=FD [--seed=N] [--wait=US]
 */
#define _GNU_SOURCE
#include "switch.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
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
#define LINE 256u   /* B of a command */
#define CHUNK 65536 /* B of commands before frames have their turn */
#define DESCRIPTORS 4
#define PULSE 10000000u /* ns between looks at the clock: a longer gap is a standstill */
#define SLEEP 10000u /* ns: to sleep for less takes longer than to look again */
#define NICE (-10) /* other programs of a busy machine would add delays of milliseconds */
#define MAX_DELAY 60000000u /* us */
#define MAX_RATE UINT64_C(1000000000000)
#define MAX_LIMIT (UINT64_C(1) << 30)
#define MAX_BURST 1000000000u /* thousandths of a frame */

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

/* Read a number of at most `digits` digits and the character after it, which must be `end`. */
static bool number(const char **text, int digits, char end, uint64_t *value)
{
    int read = 0;
    for (*value = 0; isdigit((unsigned char)**text) && read < digits; read++)
        *value = *value * 10 + (uint64_t)(*(*text)++ - '0');
    return read && *(*text)++ == end;
}

static bool set_link(const char *text)
{
    uint64_t from, to, delay, jitter, loss, rate, limit, burst = 0, reorder = 0;
    if (!number(&text, 4, ' ', &from) || !number(&text, 4, ' ', &to) || !number(&text, 8, ' ', &delay) ||
        !number(&text, 8, ' ', &jitter) || !number(&text, 7, ' ', &loss) || !number(&text, 13, ' ', &rate))
        return false;
    bool more = strchr(text, ' ');
    if (!number(&text, 10, more ? ' ' : '\0', &limit) ||
        (more && (!number(&text, 10, ' ', &burst) || !number(&text, 7, '\0', &reorder))))
        return false;
    return from < SWITCH_PORTS && to < SWITCH_PORTS && from != to && delay <= MAX_DELAY && jitter <= MAX_DELAY &&
           loss <= SWITCH_ALL_LOST && rate <= MAX_RATE && limit <= MAX_LIMIT &&
           (!burst || (burst >= 1000 && burst <= MAX_BURST)) && reorder <= SWITCH_ALL_LOST &&
           switch_link(the_switch, (uint32_t)from, (uint32_t)to, delay * 1000, jitter * 1000, (uint32_t)loss, rate,
                       limit, burst, (uint32_t)reorder);
}

static bool set_channel(const char *text)
{
    uint64_t port, channel = 0;
    if (!number(&text, 4, ' ', &port) || port >= SWITCH_PORTS)
        return false;
    bool none = !strcmp(text, "-1");
    if (!none && (!number(&text, 4, '\0', &channel) || channel >= SWITCH_PORTS))
        return false;
    switch_channel(the_switch, (uint32_t)port, none ? -1 : (int)channel);
    return true;
}

static bool set_cell(const char *text)
{
    uint64_t port, cell;
    if (!number(&text, 4, ' ', &port) || !number(&text, 1, '\0', &cell) || port >= SWITCH_PORTS || cell > 1)
        return false;
    switch_cell(the_switch, (uint32_t)port, cell == 1);
    return true;
}

static bool apply(const char *line)
{
    if (!strncmp(line, "L ", 2))
        return set_link(line + 2);
    if (!strncmp(line, "C ", 2))
        return set_channel(line + 2);
    if (!strncmp(line, "B ", 2))
        return set_cell(line + 2);
    if (!strcmp(line, "Q")) {
        ended = true;
        return true;
    }
    return !strncmp(line, "P ", 2); /* positions are for engines with a radio of their own */
}

static void take_commands(void)
{
    static char data[CHUNK], line[LINE + 1];
    static size_t length;
    static bool spoiled; /* the line is too long, or has a zero in it */
    ssize_t got = read(0, data, sizeof data);
    if (got == 0)
        ended = true;
    for (ssize_t i = 0; i < got; i++) {
        if (data[i] == '\n') {
            line[length] = '\0';
            bad += spoiled || !apply(line);
            length = 0;
            spoiled = false;
        } else if (length == LINE || !data[i]) {
            spoiled = true;
        } else {
            line[length++] = data[i];
        }
    }
}

/* Statistics */

static char *output;
static size_t output_length, output_room, output_sent;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    if (output_length + 512 > output_room) {
        size_t room = 2 * output_room + 4096;
        char *grown = realloc(output, room);
        if (!grown)
            fail("memory");
        output = grown;
        output_room = room;
    }
    va_list values;
    va_start(values, format);
    int wrote = vsnprintf(output + output_length, 512, format, values);
    va_end(values);
    if (wrote > 0)
        output_length += wrote < 512 ? (size_t)wrote : 511;
}

#define U(x) ((unsigned long long)(x))

static void compose(void)
{
    switch_count *c = switch_counts(the_switch);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                 (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    double mean = c->lag_count ? (double)c->lag_sum / (double)c->lag_count : 0.0;
    say("{\"lag_avg_ms\":%.4f,\"lag_max_ms\":%.4f,", mean / 1e6, (double)c->lag_max / 1e6);
    say("\"in\":%llu,\"out\":%llu,\"lost\":%llu,", U(c->received), U(c->delivered), U(c->lost));
    say("\"in_drop\":%llu,\"out_drop\":%llu,\"bad\":%llu,", U(c->refused), U(c->undelivered), U(bad));
    say("\"over\":%llu,\"lag_at\":%.3f,", U(c->overflowed), (double)c->lag_at / 1e9);
    say("\"cpu\":%.3f,\"rss_mb\":%.1f,\"pairs\":[", cpu, (double)used.ru_maxrss / 1024.0);
    c->lag_sum = c->lag_max = c->lag_count = 0;
    uint32_t from, to;
    pair_count p;
    for (const char *comma = ""; switch_changed(the_switch, &from, &to, &p); comma = ",")
        say("%s[%u,%u,%llu,%llu,%llu,%llu]", comma, from, to, U(p.frames), U(p.bytes), U(p.lost), U(p.dropped));
    say("]}\n");
}

/* Write a line of statistics; none if the last one was not read. */
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
    return number(&text, 19, '\0', value);
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
