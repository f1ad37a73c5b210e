// SPDX-License-Identifier: GPL-2.0-only
// Real time: frames of TAP descriptors travel through the simulated radio, as fast as the wall clock says.
//
// Two threads. The reader waits for frames, commands and new ports; it may touch no Packet and no Ptr<>, whose
// counts and free lists are for one thread only, so it hands plain buffers to the simulator's thread as events.
// That thread makes the packets, writes to the descriptors and closes them.
#pragma once

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "ns3/realtime-simulator-impl.h"
#include "radio.hpp"
#include "usage.hpp"

namespace engine {

constexpr size_t kHeader = 14;    // B of an Ethernet header
constexpr size_t kFrame = 2304;   // B, the most that a Wi-Fi frame carries, and more than any MTU here

// A command as the backend writes it; LINK_FIELDS and the sizes below come from the build.
struct Command {
    uint32_t kind, port;
    int32_t other, unused;
    double queue, values[LINK_FIELDS];
};

// A report as the backend reads it, and a pair of ports in one.
struct Report {
    char mark[4];
    uint32_t pairs;
    double lag_mean, lag_max, lag_at, memory;
    uint64_t received, delivered, lost, refused, undelivered, overflowed, bad;
    double cpu;
};

struct ReportPair {
    uint32_t sender, receiver;
    uint64_t frames, bytes, lost, dropped;
};

static_assert(sizeof(Report) == REPORT_SIZE && sizeof(ReportPair) == PAIR_SIZE);

struct Count {
    uint64_t frames = 0, bytes = 0, lost = 0, dropped = 0;
    bool changed = false;
};

struct Totals {
    std::atomic<uint64_t> in{0}, out{0}, lost{0}, in_drop{0}, out_drop{0}, bad{0};
};

class Live;

struct Port {
    Live* live = nullptr;
    uint32_t number = 0;
    // The reader's
    int reading = -1;
    std::atomic<int> pending{0};  // frames handed over and not taken yet
    // The simulator's
    int writing = -1;
    int channel = -1;
    ns3::Vector place;
    ns3::Mac48Address mac;
    Station station;
    bool made = false;

    void Send(uint8_t* frame, uint32_t size);
    void Receive(ns3::Ptr<ns3::NetDevice>, ns3::Ptr<const ns3::Packet> packet, uint16_t protocol,
                 const ns3::Address& from, const ns3::Address& to, ns3::NetDevice::PacketType type);
    void Lost(ns3::WifiMacDropReason reason, ns3::Ptr<const ns3::WifiMpdu> mpdu);
    void Open(int descriptor, ns3::Mac48Address address);
    void Shut();
    void Move(double x, double y, double z);
    void Tune(int to);
    void Make();
    void Retire();
};

class Live {
  public:
    explicit Live(const Options& options) : radio_(options), ports_(kPorts) {
        for (uint32_t i = 0; i < kPorts; i++) {
            ports_[i].live = this;
            ports_[i].number = i;
        }
    }

    int Run() {
        using namespace ns3;
        waiting_ = epoll_create1(EPOLL_CLOEXEC);
        timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        const itimerspec each{{1, 0}, {1, 0}};
        timerfd_settime(timer_, 0, &each, nullptr);
        fcntl(0, F_SETFL, O_NONBLOCK);
        Watch(0, kCommands);
        Watch(timer_, kTimer);
        if (radio_.options().control >= 0) Watch(radio_.options().control, kControl);
        Simulator::Schedule(Seconds(0), &Live::Begin, this);
        Simulator::Run();
        if (reader_.joinable()) reader_.join();
        return 0;
    }

    Radio& radio() { return radio_; }
    Totals& totals() { return totals_; }

    void Learn(ns3::Mac48Address mac, uint32_t port) { numbers_[mac] = port; }

    // What became of a frame between two ports. Called by the simulator's thread.
    void Note(ns3::Mac48Address from, ns3::Mac48Address to, uint64_t bytes, bool lost) {
        const auto a = numbers_.find(from), b = numbers_.find(to);
        if (a == numbers_.end() || b == numbers_.end()) return;
        std::lock_guard<std::mutex> guard(lock_);
        Count& count = pairs_[{a->second, b->second}];
        (lost ? count.lost : count.frames)++;
        count.bytes += bytes;
        count.changed = true;
    }

  private:
    static constexpr uint64_t kCommands = 1u << 20, kTimer = kCommands + 1, kControl = kCommands + 2;

    void Watch(int descriptor, uint64_t what) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u64 = what;
        epoll_ctl(waiting_, EPOLL_CTL_ADD, descriptor, &event);
    }

    void Forget(Port& port) {
        if (port.reading >= 0) epoll_ctl(waiting_, EPOLL_CTL_DEL, port.reading, nullptr);
        port.reading = -1;
    }

    // The first event: from here on the simulator keeps to the wall clock.
    void Begin() {
        Probe();
        Print();
        reader_ = std::thread([this] { Read(); });
    }

    // An ordinary event every 10 ms: how late is it?
    void Probe() {
        using namespace ns3;
        const auto simulator = DynamicCast<RealtimeSimulatorImpl>(Simulator::GetImplementation());
        const double late = std::max(0.0, (simulator->RealtimeNow() - Simulator::Now()).GetSeconds());
        {
            std::lock_guard<std::mutex> guard(lock_);
            late_max_ = std::max(late_max_, late);
            late_sum_ += late;
            late_count_++;
        }
        Simulator::Schedule(MilliSeconds(10), &Live::Probe, this);
    }

    template <class... A, class... B>
    void Later(Port& port, void (Port::*what)(A...), B... with) {
        ns3::Simulator::ScheduleWithContext(port.number, ns3::Time(0), ns3::MakeEvent(what, &port, with...));
    }

    void Read() {
        epoll_event events[64];
        while (!ending_) {
            const int count = epoll_wait(waiting_, events, 64, 1000);
            for (int i = 0; i < count && !ending_; i++) {
                const uint64_t what = events[i].data.u64;
                if (what == kCommands) {
                    Commands();
                } else if (what == kTimer) {
                    uint64_t times;
                    if (read(timer_, &times, sizeof times) > 0) Print();
                } else if (what == kControl) {
                    Control();
                } else {
                    Frames(ports_[what]);
                }
            }
        }
        ns3::Simulator::ScheduleWithContext(
            0, ns3::Time(0), ns3::MakeEvent(static_cast<void (*)()>(&ns3::Simulator::Stop)));
    }

    void Frames(Port& port) {
        uint8_t frame[kHeader + kFrame + 1];
        for (int i = 0; i < 64 && port.reading >= 0; i++) {
            const ssize_t size = read(port.reading, frame, sizeof frame);
            if (size < 0) {
                if (errno != EAGAIN && errno != EINTR) Forget(port);  // the device is gone; its owner will say so
                return;
            }
            if (size == 0) return Forget(port);
            totals_.in++;
            if (size_t(size) <= kHeader || size_t(size) == sizeof frame || (frame[12] << 8 | frame[13]) < 0x600 ||
                port.pending >= int(radio_.options().backlog)) {
                totals_.in_drop++;  // 802.3 frames (spanning tree) are none for a radio
                continue;
            }
            port.pending++;
            auto copy = static_cast<uint8_t*>(std::malloc(size));
            std::memcpy(copy, frame, size);
            Later(port, &Port::Send, copy, uint32_t(size));
        }
    }

    // One packet of the control socket: attach (10 bytes and a descriptor) or detach (4 bytes).
    void Control() {
        uint8_t data[16];
        char space[CMSG_SPACE(8 * sizeof(int))];
        iovec part{data, sizeof data};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = space;
        message.msg_controllen = sizeof space;
        const ssize_t size = recvmsg(radio_.options().control, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (size == 0) epoll_ctl(waiting_, EPOLL_CTL_DEL, radio_.options().control, nullptr);
        if (size <= 0) return;
        int descriptor = -1;
        for (cmsghdr* part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
            if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
            for (size_t i = 0; i < (part->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
                if (descriptor >= 0) close(descriptor);
                std::memcpy(&descriptor, CMSG_DATA(part) + i * sizeof(int), sizeof descriptor);
            }
        }
        const uint32_t number = size >= 4 ? data[0] | data[1] << 8 | data[2] << 16 | uint32_t(data[3]) << 24 : kPorts;
        const bool attach = size == 10 && descriptor >= 0, detach = size == 4 && descriptor < 0;
        if (number >= kPorts || !(attach || detach)) {
            totals_.bad++;
            if (descriptor >= 0) close(descriptor);
            return;
        }
        Port& port = ports_[number];
        Forget(port);
        if (detach) return Later(port, &Port::Shut);
        fcntl(descriptor, F_SETFL, O_NONBLOCK);
        ns3::Mac48Address mac;
        mac.CopyFrom(data + 4);
        Later(port, &Port::Open, descriptor, mac);
        port.reading = descriptor;  // closed by Shut or the next Open, which come after a Forget
        Watch(descriptor, number);
    }

    void Commands() {
        char* const into = reinterpret_cast<char*>(commands_);
        const ssize_t size = read(0, into + taken_, sizeof commands_ - taken_);
        if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) ending_ = true;
        if (size <= 0) return;
        taken_ += size_t(size);
        const size_t whole = taken_ / sizeof *commands_;
        for (size_t i = 0; i < whole && !ending_; i++)
            if (!Take(commands_[i])) totals_.bad++;
        taken_ -= whole * sizeof *commands_;
        std::memmove(into, commands_ + whole, taken_);
    }

    bool Take(const Command& command) {
        if (command.kind == 'Q') return ending_ = true;
        if (command.port >= kPorts) return false;
        const double x = command.values[0], y = command.values[1], z = command.values[2];
        switch (command.kind) {
            case 'L':  // the radio itself says what links are like,
            case 'B':  // and has no base stations
                return true;
            case 'P':
                if (!std::isfinite(x + y + z)) return false;
                Later(ports_[command.port], &Port::Move, x, y, z);
                return true;
            case 'C':
                Later(ports_[command.port], &Port::Tune, int(command.other));
                return true;
            default:
                return false;
        }
    }

    void Print() {
        const Usage use = Usage::Now();
        std::lock_guard<std::mutex> guard(lock_);
        Report report{{'l', 'i', 'n', 'k'}, 0, late_count_ ? late_sum_ / late_count_ : 0.0, late_max_,
                      std::nan(""), use.memory * 1048576.0, totals_.in, totals_.out, totals_.lost, totals_.in_drop,
                      totals_.out_drop, 0, totals_.bad, use.cpu};
        std::vector<ReportPair> pairs;
        for (auto& [pair, count] : pairs_) {
            if (!count.changed) continue;
            count.changed = false;
            pairs.push_back({pair.first, pair.second, count.frames, count.bytes, count.lost, count.dropped});
        }
        report.pairs = uint32_t(pairs.size());
        late_max_ = late_sum_ = 0;
        late_count_ = 0;
        std::fwrite(&report, sizeof report, 1, stdout);
        std::fwrite(pairs.data(), sizeof(ReportPair), pairs.size(), stdout);
        std::fflush(stdout);
    }

    Radio radio_;
    std::vector<Port> ports_;
    std::map<ns3::Mac48Address, uint32_t> numbers_;
    Totals totals_;
    std::thread reader_;
    std::atomic<bool> ending_{false};
    int waiting_ = -1, timer_ = -1;
    Command commands_[1024];
    size_t taken_ = 0;  // B of them
    std::mutex lock_;  // for what follows
    std::map<std::pair<uint32_t, uint32_t>, Count> pairs_;
    double late_max_ = 0, late_sum_ = 0;
    uint64_t late_count_ = 0;
};

inline void Port::Send(uint8_t* frame, uint32_t size) {
    using namespace ns3;
    pending--;
    Mac48Address to;
    to.CopyFrom(frame);
    const bool taken = made && writing >= 0 &&
                       station.device->Send(Create<Packet>(frame + kHeader, size - kHeader), to,
                                            uint16_t(frame[12] << 8 | frame[13]));
    std::free(frame);
    if (!taken) live->totals().in_drop++;
}

inline void Port::Receive(ns3::Ptr<ns3::NetDevice>, ns3::Ptr<const ns3::Packet> packet, uint16_t protocol,
                          const ns3::Address& from, const ns3::Address& to, ns3::NetDevice::PacketType type) {
    using namespace ns3;
    const uint32_t size = packet->GetSize();
    if (type == NetDevice::PACKET_OTHERHOST || size > kFrame || writing < 0) return;
    uint8_t frame[kHeader + kFrame];
    Mac48Address::ConvertFrom(to).CopyTo(frame);
    Mac48Address::ConvertFrom(from).CopyTo(frame + 6);
    frame[12] = protocol >> 8;
    frame[13] = protocol & 255;
    packet->CopyData(frame + kHeader, size);
    if (write(writing, frame, size + kHeader) < 0) {
        live->totals().out_drop++;
        return;
    }
    live->totals().out++;
    live->Note(Mac48Address::ConvertFrom(from), mac, size + kHeader, false);
}

inline void Port::Lost(ns3::WifiMacDropReason reason, ns3::Ptr<const ns3::WifiMpdu> mpdu) {
    if (!mpdu->GetHeader().IsData()) return;
    if (reason == ns3::WIFI_MAC_DROP_FAILED_ENQUEUE) {
        live->totals().in_drop++;
        return;
    }
    live->totals().lost++;
    live->Note(mac, mpdu->GetHeader().GetAddr1(), 0, true);
}

inline void Port::Make() {
    using namespace ns3;
    station = live->radio().Add(mac, channel);
    station.Move(place.x, place.y, place.z);
    station.node->RegisterProtocolHandler(MakeCallback(&Port::Receive, this), 0, station.device, false);
    station.device->GetMac()->TraceConnectWithoutContext("DroppedMpdu", MakeCallback(&Port::Lost, this));
    live->Learn(mac, number);
    made = true;
}

// Neither address nor medium of a station can change: it goes out of everybody's reach, and another one comes.
inline void Port::Retire() {
    if (!made) return;
    station.node->UnregisterProtocolHandler(ns3::MakeCallback(&Port::Receive, this));
    station.Move(1e9, 1e9, 0);
    made = false;
}

inline void Port::Open(int descriptor, ns3::Mac48Address address) {
    Shut();
    if (address != mac) Retire();
    mac = address;
    if (!made) Make();
    writing = descriptor;
}

inline void Port::Tune(int to) {
    if (to == channel) return;
    channel = to;
    if (!made) return;
    Retire();
    Make();
}

inline void Port::Shut() {
    if (writing >= 0) close(writing);
    writing = -1;
}

inline void Port::Move(double x, double y, double z) {
    place = ns3::Vector(x, y, z);
    if (made) station.Move(x, y, z);
}

}  // namespace engine
