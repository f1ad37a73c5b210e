// SPDX-License-Identifier: GPL-2.0-only
// An engine that carries frames through the Wi-Fi models of ns-3; README.md says how it is spoken to.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <iostream>

#include "live.hpp"
#include "stepped.hpp"

// Without permission all goes on, and the lag tells. Threads that are started later have it as well.
static void Prioritise(int nice) {
    setpriority(PRIO_PROCESS, 0, nice);
    // Where the scheduler groups processes by session, priorities hold within a session, and it has one of its own.
    if (getsid(0) != getpid()) return;  // a session that is shared is not ours to raise
    if (FILE* group = std::fopen("/proc/self/autogroup", "w")) {
        std::fprintf(group, "%d", nice);
        std::fclose(group);
    }
}

int main(int argc, char** argv) {
    const pid_t parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) return 1;  // it died before we could ask
    signal(SIGPIPE, SIG_IGN);

    engine::Options options;
    ns3::CommandLine line;
    line.AddValue("control", "socket that opens and closes ports", options.control);
    line.AddValue("stepped", "advance by commands, not by the clock", options.stepped);
    line.AddValue("standard", "a, n, ac or ax", options.standard);
    line.AddValue("rate", "ideal, minstrel or a constant mode", options.rate);
    line.AddValue("band", "GHz: 2.4 or 5", options.band);
    line.AddValue("width", "MHz", options.width);
    line.AddValue("exponent", "of the distance", options.exponent);
    line.AddValue("reference", "dB lost over the first metre, 0: free space", options.reference);
    line.AddValue("power", "dBm sent", options.power);
    line.AddValue("noise", "dB, noise figure", options.noise);
    line.AddValue("fading", "Nakagami m, 0: none", options.fading);
    line.AddValue("threshold", "dB of SNR that a preamble needs", options.threshold);
    line.AddValue("sensitivity", "dBm that a preamble needs", options.sensitivity);
    line.AddValue("queue", "frames per access category", options.queue);
    line.AddValue("backlog", "frames of a port that wait for the simulator", options.backlog);
    line.AddValue("lifetime", "s that a frame may wait for the air", options.lifetime);
    line.AddValue("access", "MACs of access points; none: ad hoc", options.access);
    line.AddValue("seed", "of all random numbers", options.seed);
    line.AddValue("nice", "priority, where permitted", options.nice);
    line.Parse(argc, argv);
    try {
        if (options.stepped) return engine::Stepped(options).Run();
        Prioritise(options.nice);
        ns3::GlobalValue::Bind("SimulatorImplementationType", ns3::StringValue("ns3::RealtimeSimulatorImpl"));
        return engine::Live(options).Run();
    } catch (const std::invalid_argument& error) {
        std::cerr << error.what() << '\n';
        return 2;
    }
}
