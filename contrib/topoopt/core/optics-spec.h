// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_OPTICS_SPEC_H
#define TOPOOPT_CORE_OPTICS_SPEC_H

#include "topoopt/core/circuit-plan.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace topoopt
{

class YamlSection;
struct YamlValue;

/** Which policy changes the circuits of a fabric, through which device, how. */
struct ReconfigurationSpec
{
    std::string policy = "static";
    std::string device = "ocs";
    SimTime latency = 10 * kMillisecond; ///< without light, of an ocs
    SimTime period = 0;                  ///< between two changes; 0 = four times the latency
    SimTime first = kNever; ///< of a periodic policy; kNever = the latency, at most 1 ms
    bool drain = true;      ///< else what is on a circuit that changes is lost
    bool whole = true;      ///< ocs: circuits that stay go dark, too
    bool forwarding = true; ///< servers pass traffic on
    bool bond = true;       ///< parallel circuits are one link of their total rate
    bool manyRings = true;  ///< AllReduce over all rings that circuits carry, else over one
    SimTime relock = 0;     ///< of transceivers, after the light is back
    SimTime moveTime = 60 * kSecond; ///< of the robot, per circuit
    SimTime flipTime = 10 * kMillisecond;
    std::uint32_t ports = 0;   ///< of the device; 0 = as many as needed
    double insertionLoss = -1; ///< dB; < 0: of the device
    double linkBudget = 6.3;   ///< dB between transceivers
    double fibreKm = 0.5;
    std::map<std::string, std::string> options; ///< of the policy
    std::string place;                          ///< for messages
};

/**
 * Reads a reconfiguration section that was flattened to texts.
 * @param places of each key, for messages; @p place of the section
 * @throws SpecError for unknown keys (with a suggestion), values out of range, and what does not go together
 */
[[nodiscard]] ReconfigurationSpec ParseReconfiguration(
    const std::map<std::string, std::string>& texts,
    const std::map<std::string, std::string>& places,
    const std::string& place);

/** What breaks. */
enum class FailureKind : std::uint8_t
{
    Link,   ///< a cable, both directions
    Nic,    ///< everything at one port of a server
    Server, ///< all its ports
    Port,   ///< a port of a patch panel
    Flap    ///< a NIC whose light comes and goes
};

[[nodiscard]] const char* Name(FailureKind kind);

/** One entry of `failures.events`: one failure, or a source of random ones. */
struct FailureSpec
{
    FailureKind kind = FailureKind::Link;
    SimTime at = 0;
    SimTime mtbf = 0;            ///< > 0: random, mean time between failures of one such thing
    std::uint32_t count = 1;     ///< random: at most so many; flap: times without light
    std::uint32_t index = kNoId; ///< link: number of the cable; kNoId = by names, or any
    std::string from;            ///< link: names of its ends
    std::string to;
    std::uint32_t server = kNoId;
    std::uint32_t nic = 0;
    std::uint32_t panel = 0;
    std::uint32_t port = kNoId;
    SimTime down = 0;   ///< flap: without light
    SimTime up = 0;     ///< flap: between
    SimTime repair = 0; ///< after the detection; 0 = as `failures.repair` says, kNever = never
    std::string place;
};

/** The `failures:` section. */
struct FailurePlan
{
    std::vector<FailureSpec> events;
    SimTime detection = kMillisecond; ///< until the control knows of it
    bool patch =
        true; ///< cables and panel ports are patched to spare ports, where there is a panel
    SimTime repair = kNever;         ///< if not patched: after the detection
    std::uint32_t sparePorts = 8;    ///< of a panel, one per repair
    SimTime moveTime = 60 * kSecond; ///< of the robot, one repair after the other
    std::string text;                ///< as YAML in one line, for the manifest; "" = no section
};

/** @throws SpecError for unknown keys (with suggestions), wrong types, values out of range */
[[nodiscard]] FailurePlan ReadFailures(const YamlValue& value);

} // namespace topoopt

#endif // TOPOOPT_CORE_OPTICS_SPEC_H
