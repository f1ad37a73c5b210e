// SPDX-License-Identifier: GPL-2.0-only
// Not in real time: the simulator advances when it is told to, and trains of probe frames measure the links.
//
// A train is a number of frames given to the device at once. The delay of its first frame is that of a lone frame;
// the bits of a train over the time from its start to its last arrival are the rate that the link has left, with the
// aggregation that the standard allows (packet trains: Dovrolis, Ramanathan, Moore, IEEE INFOCOM 2001).
#pragma once

#include <algorithm>
#include <cstring>
#include <iostream>
#include <limits>
#include <sstream>
#include <vector>

#include "radio.hpp"
#include "usage.hpp"

namespace engine {

class Stepped {
  public:
    explicit Stepped(const Options& options) : radio_(options) {}

    // Commands until Q or the end of the input. What cannot be is answered by a line {"error": "..."}.
    int Run() {
        for (std::string line; std::getline(std::cin, line) && line != "Q";) {
            const char* problem = Command(line);
            if (problem) std::cout << "{\"error\":\"" << problem << "\"}" << std::endl;
        }
        return 0;
    }

  private:
    static constexpr uint16_t kProtocol = 0x88b5;  // IEEE 802: local experiments

    struct Stamp {
        uint32_t pair, train, number;
        double sent;
    };

    struct Probe {
        uint32_t from, to;
        double interval;                // s between trains
        uint32_t frames, size;          // of a train; B
        bool running = false;
        uint32_t train = 0, arrived = 0;  // of the train under way
        double started = 0, last = 0, first = -1;
        // Of the trains that have ended since the last answer
        uint64_t sent = 0, received = 0;
        double bits = 0, busy = 0, delay = 0, least = 0, most = 0;
        uint32_t delays = 0;
    };

    const char* Command(const std::string& line) {
        std::istringstream words(line);
        std::string word;
        words >> word;
        if (word == "A") {  // A port mac
            uint32_t port;
            std::string mac;
            unsigned bytes[6];
            char rest;
            if (!(words >> port >> mac) || port != stations_.size() || port >= kPorts) return "A: the next port, mac";
            if (std::sscanf(mac.c_str(), "%2x:%2x:%2x:%2x:%2x:%2x%c", bytes, bytes + 1, bytes + 2, bytes + 3, bytes + 4,
                            bytes + 5, &rest) != 6)
                return "A: not a MAC";
            stations_.push_back(radio_.Add(ns3::Mac48Address(mac.c_str()), -1));
            stations_.back().node->RegisterProtocolHandler(ns3::MakeCallback(&Stepped::Receive, this), kProtocol,
                                                           stations_.back().device, false);
            return nullptr;
        }
        if (word == "P") {  // P port x y z
            uint32_t port;
            double x, y, z;
            if (!(words >> port >> x >> y >> z) || port >= stations_.size() || !std::isfinite(x + y + z))
                return "P: port x y z";
            stations_[port].Move(x, y, z);
            return nullptr;
        }
        if (word == "F") {  // F from to interval frames size
            Probe probe{};
            if (!(words >> probe.from >> probe.to >> probe.interval >> probe.frames >> probe.size) ||
                probe.from >= stations_.size() || probe.to >= stations_.size() || probe.from == probe.to ||
                !(probe.interval > 0) || probe.frames < 2 || probe.frames > radio_.options().queue ||
                probe.size < sizeof(Stamp) || probe.size > 1500)
                return "F: from to interval frames size; a train is 2 frames or more and fits into the queue";
            probes_.push_back(probe);
            return nullptr;
        }
        if (word == "T") {  // T dt
            double step;
            if (!(words >> step) || !(step > 0) || !std::isfinite(step)) return "T: a time above 0";
            Step(step);
            return nullptr;
        }
        return "A, P, F, T or Q";
    }

    void Step(double step) {
        using namespace ns3;
        for (uint32_t i = 0; i < probes_.size(); i++) {
            if (probes_[i].running) continue;
            probes_[i].running = true;
            // One after the other, as far as the interval lets them: trains should not meet.
            Simulator::ScheduleWithContext(stations_[probes_[i].from].node->GetId(),
                                           Seconds(probes_[i].interval * i / probes_.size()), &Stepped::Train, this, i);
        }
        Simulator::Stop(Seconds(step));
        Simulator::Run();
        std::ostringstream out;
        out.precision(std::numeric_limits<double>::max_digits10);
        const Usage use = Usage::Now();
        out << "{\"now\":" << Simulator::Now().GetSeconds() << ",\"events\":" << Simulator::GetEventCount()
            << ",\"cpu\":" << use.cpu << ",\"rss_mb\":" << use.memory << ",\"links\":[";
        const char* comma = "";
        for (auto& probe : probes_) {
            out << comma << '[' << probe.from << ',' << probe.to << ',' << probe.sent << ',' << probe.received << ','
                << (probe.busy > 0 ? probe.bits / probe.busy : 0.0) << ','
                << (probe.delays ? probe.delay / probe.delays : 0.0) << ',' << (probe.most - probe.least) / 2 << ','
                << radio_.Power(stations_[probe.from], stations_[probe.to]) << ']';
            comma = ",";
            probe.sent = probe.received = probe.delays = 0;
            probe.bits = probe.busy = probe.delay = probe.least = probe.most = 0;
        }
        std::cout << out.str() << "]}" << std::endl;
    }

    void Train(uint32_t index) {
        using namespace ns3;
        Probe& probe = probes_[index];
        if (probe.train > 0) End(probe);
        probe.train++;
        probe.arrived = 0;
        probe.first = -1;
        probe.started = Simulator::Now().GetSeconds();
        std::vector<uint8_t> data(probe.size);
        for (uint32_t i = 0; i < probe.frames; i++) {
            const Stamp stamp{index, probe.train, i, probe.started};
            std::memcpy(data.data(), &stamp, sizeof stamp);
            stations_[probe.from].device->Send(Create<Packet>(data.data(), data.size()),
                                               stations_[probe.to].device->GetAddress(), kProtocol);
        }
        Simulator::Schedule(Seconds(probe.interval), &Stepped::Train, this, index);
    }

    void End(Probe& probe) {
        probe.sent += probe.frames;
        probe.received += probe.arrived;
        if (probe.arrived) {
            probe.bits += 8.0 * probe.arrived * probe.size;
            probe.busy += probe.last - probe.started;
        }
        if (probe.first >= 0) {
            probe.least = probe.delays ? std::min(probe.least, probe.first) : probe.first;
            probe.most = std::max(probe.most, probe.first);
            probe.delay += probe.first;
            probe.delays++;
        }
    }

    void Receive(ns3::Ptr<ns3::NetDevice>, ns3::Ptr<const ns3::Packet> packet, uint16_t, const ns3::Address&,
                 const ns3::Address&, ns3::NetDevice::PacketType type) {
        Stamp stamp;
        if (type == ns3::NetDevice::PACKET_OTHERHOST || packet->GetSize() < sizeof stamp) return;
        packet->CopyData(reinterpret_cast<uint8_t*>(&stamp), sizeof stamp);
        Probe& probe = probes_[stamp.pair];
        if (stamp.train != probe.train) return;  // too late to count
        probe.last = ns3::Simulator::Now().GetSeconds();
        if (probe.first < 0) probe.first = probe.last - stamp.sent;
        probe.arrived++;
    }

    Radio radio_;
    std::vector<Station> stations_;
    std::vector<Probe> probes_;
};

}  // namespace engine
