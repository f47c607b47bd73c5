// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_OPTICAL_DEVICE_H
#define TOPOOPT_OPTICAL_DEVICE_H

#include "ns3/nstime.h"
#include "ns3/object.h"
#include "ns3/traced-callback.h"
#include "topoopt/core/ids.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace topoopt
{

/** Which port's light goes to which port: always a partial permutation. */
class PortMap
{
  public:
    explicit PortMap(std::uint32_t ports);

    /** @throws SpecError if a port does not exist, sends already, or receives already */
    void Connect(std::uint32_t in, std::uint32_t out);

    [[nodiscard]] std::uint32_t Ports() const
    {
        return static_cast<std::uint32_t>(m_to.size());
    }

    /** Where the light of a port goes; kNoId = nowhere. */
    [[nodiscard]] std::uint32_t To(std::uint32_t in) const
    {
        return m_to[in];
    }

    /** Whose light a port gets; kNoId = nobody's. */
    [[nodiscard]] std::uint32_t From(std::uint32_t out) const
    {
        return m_from[out];
    }

    /** Circuits ascending by the port that sends. */
    [[nodiscard]] std::vector<std::pair<std::uint32_t, std::uint32_t>> Circuits() const;

  private:
    std::vector<std::uint32_t> m_to;
    std::vector<std::uint32_t> m_from;
};

/** A circuit loses or gets its light, so long after the command. */
struct CircuitChange
{
    std::uint32_t in = 0;
    std::uint32_t out = 0;
    bool light = false;
    SimTime after = 0; ///< relock time of the transceivers not included
};

/**
 * Something that light goes through and that can be told to send it elsewhere.
 *
 * A device answers what it does when: nothing passes a circuit between its loss of light and the end of the change. Attributes: Ports,
 * InsertionLoss (dB, once through). Trace source Reconfigured: number of circuits that change, and when the last one is done.
 */
class OpticalDevice : public ns3::Object
{
  public:
    static ns3::TypeId GetTypeId();

    /**
     * The changes that lead from one map to another, by time, then port. Circuits that stay and keep their light are not among them.
     * @throws SpecError if a map needs more ports than there are
     */
    [[nodiscard]] std::vector<CircuitChange> Change(const PortMap& now, const PortMap& next) const;

    [[nodiscard]] std::uint32_t Ports() const
    {
        return m_ports;
    }

    /** dB that light loses on its way through, everything that this device puts into a circuit included. */
    [[nodiscard]] virtual double LossDb() const
    {
        return m_lossDb;
    }

    /** Pairs of connectors that this device puts into a circuit. */
    [[nodiscard]] virtual std::uint32_t Connectors() const
    {
        return 2;
    }

    /** Signature of the trace source Reconfigured. */
    typedef void (*ReconfiguredTrace)(std::uint32_t circuits, ns3::Time duration);

  protected:
    virtual void Schedule(const PortMap& now,
                          const PortMap& next,
                          std::vector<CircuitChange>& changes) const = 0;

  private:
    std::uint32_t m_ports = 0;
    double m_lossDb = 0;
    ns3::TracedCallback<std::uint32_t, ns3::Time> m_reconfigured;
};

/**
 * A robot that plugs fibres, one pair of ports at a time. A circuit loses its light when the robot comes to one of its ports, and
 * the new one has it when the robot is done. Attribute MoveTime: per circuit.
 */
class PatchPanel final : public OpticalDevice
{
  public:
    static ns3::TypeId GetTypeId();

    [[nodiscard]] SimTime MoveTime() const
    {
        return m_moveTime.GetTimeStep();
    }

  private:
    void Schedule(const PortMap& now,
                  const PortMap& next,
                  std::vector<CircuitChange>& changes) const override;

    ns3::Time m_moveTime;
};

/**
 * An optical circuit switch: mirrors or waveguides, all at once. Attributes: ReconfigDelay, Whole (whether circuits that stay
 * lose their light, too).
 */
class OpticalCircuitSwitch final : public OpticalDevice
{
  public:
    static ns3::TypeId GetTypeId();

  private:
    void Schedule(const PortMap& now,
                  const PortMap& next,
                  std::vector<CircuitChange>& changes) const override;

    ns3::Time m_delay;
    bool m_whole = true;
};

/**
 * 1x2 switches between every NIC and two patch panels, TopoOpt's look-ahead design: the robot patches the idle panel for
 * the next plan while light still goes through the other one, then all switches flip at once. Attributes: MoveTime (per circuit of the
 * next plan), FlipTime, SwitchLoss (dB, once through; a circuit passes two).
 */
class OneByTwoSwitch final : public OpticalDevice
{
  public:
    static ns3::TypeId GetTypeId();

    [[nodiscard]] double LossDb() const override
    {
        return OpticalDevice::LossDb() + 2 * m_switchLossDb;
    }

    [[nodiscard]] std::uint32_t Connectors() const override
    {
        return 4;
    }

  private:
    void Schedule(const PortMap& now,
                  const PortMap& next,
                  std::vector<CircuitChange>& changes) const override;

    ns3::Time m_moveTime;
    ns3::Time m_flipTime;
    double m_switchLossDb = 0;
};

/** One entry of the table of devices. */
struct DeviceKind
{
    const char* name;   ///< as in `reconfiguration: {device: NAME}`
    const char* help;   ///< one line for `topoopt list`
    const char* typeId; ///< of the class
};

/** All devices, sorted by name. */
[[nodiscard]] const std::vector<DeviceKind>& DeviceKinds();

/** What is between two transceivers. */
struct LightPath
{
    double budgetDb = 6.3;     ///< what the transceivers bridge
    double connectorDb = 0.25; ///< per pair of connectors
    double fibreDbPerKm = 0.4;
    double km = 0.5; ///< of fibre from end to end
};

/**
 * The loss of a circuit through a device: the device, its connectors and two at the servers, the fibre.
 * @throws SpecError if it is more than the budget; the message begins with @p place
 */
double CheckLightPath(const OpticalDevice& device, const LightPath& path, const std::string& place);

} // namespace topoopt

#endif // TOPOOPT_OPTICAL_DEVICE_H
