// SPDX-License-Identifier: GPL-2.0-only
// Stations with a Wi-Fi device each, on media that they share. Used by the simulator's thread only.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>

#include "ns3/core-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/propagation-module.h"
#include "ns3/wifi-module.h"

namespace engine {

constexpr uint32_t kPorts = 1024;

struct Options {
    std::string standard = "n";      // a, n, ac or ax
    std::string rate = "ideal";      // ideal, minstrel, or the name of a constant mode
    double band = 5;                 // GHz: 2.4 or 5
    int width = 20;                  // MHz
    double exponent = 2.7;           // of the distance; free space has 2
    double reference = 0;            // dB lost over the first metre; 0: as in free space
    double power = 20;               // dBm, sent
    double noise = 7;                // dB, noise figure of receivers
    double fading = 0;               // Nakagami m; 0: none. Without it loss goes from 0 to 1 within some metres
    double threshold = 2;            // dB of SNR that a preamble needs
    double sensitivity = -101;       // dBm that a preamble needs; ns-3's own -82 would end links at a hard edge
    uint32_t queue = 100;            // frames per access category
    uint32_t backlog = 2000;         // frames of a port that wait for the simulator
    double lifetime = 0.5;           // s that a frame may wait for the air
    std::string access;              // MACs of access points, with commas; none: ad hoc
    uint32_t seed = 1;
    int nice = -10;                  // where permitted
    int control = -1;                // socket that opens and closes ports
    bool stepped = false;
};

inline ns3::WifiStandard Standard(const std::string& name) {
    static const std::map<std::string, ns3::WifiStandard> known = {{"a", ns3::WIFI_STANDARD_80211a},
                                                                   {"n", ns3::WIFI_STANDARD_80211n},
                                                                   {"ac", ns3::WIFI_STANDARD_80211ac},
                                                                   {"ax", ns3::WIFI_STANDARD_80211ax}};
    const auto found = known.find(name);
    if (found == known.end()) throw std::invalid_argument("no standard '" + name + "'; known: a, n, ac, ax");
    return found->second;
}

struct Station {
    ns3::Ptr<ns3::Node> node;
    ns3::Ptr<ns3::WifiNetDevice> device;
    ns3::Ptr<ns3::MobilityModel> place;

    void Move(double x, double y, double z) { place->SetPosition(ns3::Vector(x, y, z)); }
};

class Radio {
  public:
    explicit Radio(const Options& options) : options_(options) {
        Standard(options.standard);
        if (options.band != 2.4 && options.band != 5) throw std::invalid_argument("band is 2.4 or 5 (GHz)");
        ns3::RngSeedManager::SetSeed(options.seed);
        ns3::Config::SetDefault("ns3::WifiMacQueue::MaxSize",
                                ns3::QueueSizeValue(ns3::QueueSize(ns3::PACKETS, options.queue)));
        ns3::Config::SetDefault("ns3::WifiMacQueue::MaxDelay", ns3::TimeValue(ns3::Seconds(options.lifetime)));
        for (size_t at = 0; at < options.access.size();) {
            const size_t end = std::min(options.access.find(',', at), options.access.size());
            access_.insert(ns3::Mac48Address(options.access.substr(at, end - at).c_str()));
            at = end + 1;
        }
        // ns-3 aborts on parameters that do not fit each other: now, not when the first node comes.
        Add(ns3::Mac48Address("02:ff:ff:ff:ff:ff"), std::numeric_limits<int>::min());
    }

    // A new node on the medium `channel`. Its address holds from the start: nothing has been sent yet.
    Station Add(ns3::Mac48Address mac, int channel) {
        using namespace ns3;
        Station station;
        station.node = CreateObject<Node>();
        station.place = CreateObject<ConstantPositionMobilityModel>();
        station.node->AggregateObject(station.place);
        WifiHelper wifi;
        wifi.SetStandard(Standard(options_.standard));
        if (options_.rate == "ideal") {
            wifi.SetRemoteStationManager("ns3::IdealWifiManager");
        } else if (options_.rate == "minstrel") {
            wifi.SetRemoteStationManager(options_.standard == "a" ? "ns3::MinstrelWifiManager"
                                                                  : "ns3::MinstrelHtWifiManager");
        } else {
            wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager", "DataMode", StringValue(options_.rate));
        }
        WifiMacHelper mac_helper;
        const bool point = access_.count(mac) > 0;
        if (access_.empty()) {
            mac_helper.SetType("ns3::AdhocWifiMac");
        } else if (point) {
            mac_helper.SetType("ns3::ApWifiMac", "Ssid", SsidValue(Ssid("cosim")));
        } else {
            mac_helper.SetType("ns3::StaWifiMac", "Ssid", SsidValue(Ssid("cosim")), "ActiveProbing",
                               BooleanValue(true));
        }
        YansWifiPhyHelper phy;
        phy.SetChannel(Medium(channel));
        phy.Set("ChannelSettings", StringValue("{0, " + std::to_string(options_.width) +
                                               (options_.band == 5 ? ", BAND_5GHZ, 0}" : ", BAND_2_4GHZ, 0}")));
        phy.Set("TxPowerStart", DoubleValue(options_.power));
        phy.Set("TxPowerEnd", DoubleValue(options_.power));
        phy.Set("RxNoiseFigure", DoubleValue(options_.noise));
        phy.SetPreambleDetectionModel("ns3::ThresholdPreambleDetectionModel", "Threshold",
                                      DoubleValue(options_.threshold), "MinimumRssi",
                                      DoubleValue(options_.sensitivity));
        station.device = DynamicCast<WifiNetDevice>(wifi.Install(phy, mac_helper, station.node).Get(0));
        station.device->SetAddress(mac);
        // The address of the link is kept apart from that of the device; frames fail an assertion when they differ.
        auto exchange = station.device->GetMac()->GetFrameExchangeManager();
        exchange->SetAddress(mac);
        if (point) exchange->SetBssid(mac);
        streams_ += WifiHelper::AssignStreams(NetDeviceContainer(station.device), streams_);
        return station;
    }

    // dBm at `to` of what `from` sends, without fading.
    double Power(const Station& from, const Station& to) const {
        return loss_->CalcRxPower(options_.power, from.place, to.place);
    }

    const Options& options() const { return options_; }

  private:
    ns3::Ptr<ns3::YansWifiChannel> Medium(int channel) {
        using namespace ns3;
        auto& medium = media_[channel];
        if (!medium) {
            const double frequency = options_.band == 5 ? 5.18e9 : 2.437e9;  // Hz
            // Close-in model: what free space takes over the first metre, then the exponent.
            const double first = options_.reference > 0 ? options_.reference
                                                        : 20 * std::log10(4 * M_PI * frequency / 299792458.0);
            auto distance = CreateObject<LogDistancePropagationLossModel>();
            distance->SetPathLossExponent(options_.exponent);
            distance->SetReference(1.0, first);
            auto lossy = CreateObject<LogDistancePropagationLossModel>();
            lossy->SetPathLossExponent(options_.exponent);
            lossy->SetReference(1.0, first);
            loss_ = distance;
            if (options_.fading > 0) {
                auto fading = CreateObject<NakagamiPropagationLossModel>();
                for (const char* name : {"m0", "m1", "m2"}) fading->SetAttribute(name, DoubleValue(options_.fading));
                lossy->SetNext(fading);
            }
            medium = CreateObject<YansWifiChannel>();
            medium->SetPropagationLossModel(lossy);
            medium->SetPropagationDelayModel(CreateObject<ConstantSpeedPropagationDelayModel>());
            streams_ += medium->AssignStreams(streams_);
        }
        return medium;
    }

    Options options_;
    std::set<ns3::Mac48Address> access_;
    std::map<int, ns3::Ptr<ns3::YansWifiChannel>> media_;
    ns3::Ptr<ns3::PropagationLossModel> loss_;
    int64_t streams_ = 1;  // random numbers of a station depend on the order in which stations come, and the seed
};

}  // namespace engine
