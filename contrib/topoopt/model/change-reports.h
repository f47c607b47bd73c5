// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CHANGE_REPORTS_H
#define TOPOOPT_CHANGE_REPORTS_H

#include "topoopt/core/units.h"

#include <cstdint>
#include <string>

namespace topoopt
{

/** What came of one failure. */
struct FailureReport
{
    std::string kind;
    std::string what;    ///< "link s3 - s7"
    bool applies = true; ///< false: this fabric has no such thing, nothing happened
    SimTime at = kNever;
    SimTime detected = kNever;
    SimTime repaired = kNever;  ///< or came back by itself
    std::uint64_t hit = 0;      ///< messages whose way it cut
    SimTime recovered = kNever; ///< the last of them had arrived
};

/** What came of reconfiguring. */
struct ReconfigurationReport
{
    std::uint64_t asked = 0;    ///< times that the policy was asked
    std::uint64_t changes = 0;  ///< plans that changed something
    std::uint64_t circuits = 0; ///< circuits lit by them, one way each
    SimTime held = 0;           ///< time during which servers held their data back
    SimTime changing = 0;       ///< from the first circuit that goes dark to the last one lit
};

} // namespace topoopt

#endif // TOPOOPT_CHANGE_REPORTS_H
