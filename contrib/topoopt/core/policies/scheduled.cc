// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/circuit-plan.h"
#include "topoopt/core/error.h"
#include "topoopt/core/yaml-document.h"

#include <charconv>
#include <set>
#include <stdexcept>

namespace topoopt::policies
{

namespace
{

constexpr std::size_t kMaxPlans = 10'000;

std::uint32_t
NumberIn(std::string_view text, const std::string& place, const std::string& what)
{
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || error != std::errc() || end != text.data() + text.size())
    {
        throw SpecError(place,
                        what + ": found '" + Printable(std::string(text)) +
                            "', expected a whole number");
    }
    return number;
}

/** "0-1,2-3" (both directions) or "0>1,1>2" (one way). */
CircuitPlan
ParseCircuits(const std::string& text, const std::string& place, const std::string& what)
{
    CircuitPlan plan;
    std::size_t begin = 0;
    while (begin <= text.size())
    {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        const std::string item = text.substr(begin, end - begin);
        const std::size_t middle = item.find_first_of("->");
        const bool duplex = middle != std::string::npos && item[middle] == '-';
        const bool mixed = !plan.circuits.empty() && duplex != plan.duplex;
        if (middle == std::string::npos || mixed)
        {
            throw SpecError(
                place,
                what + ": found '" + Printable(item) +
                    "', expected circuits such as 0-1 (both directions) or 0>1 (one way), all of "
                    "one sort");
        }
        plan.duplex = duplex;
        plan.circuits.emplace_back(
            NumberIn(std::string_view(item).substr(0, middle), place, what),
            NumberIn(std::string_view(item).substr(middle + 1), place, what));
        begin = end + 1;
    }
    return plan;
}

/** How many plans there are: keys `plans.K.NAME`, and no others. */
std::size_t
CountPlans(const PolicyContext& context)
{
    std::set<std::string> numbers;
    for (const auto& [key, text] : context.options)
    {
        const std::size_t first = key.find('.');
        const std::size_t second = key.find('.', first + 1);
        const std::string name = second == std::string::npos ? "" : key.substr(second + 1);
        if (name != "at" && name != "before" && name != "circuits")
        {
            throw SpecError(context.place,
                            "reconfiguration." + Printable(key) +
                                ": found an unknown key, expected a list of {at: TIME, circuits: "
                                "[0-1, ...]} or {before: COLLECTIVE, circuits: ...}");
        }
        numbers.insert(key.substr(first + 1, second - first - 1));
    }
    if (numbers.size() > kMaxPlans)
    {
        throw SpecError(context.place,
                        "reconfiguration.plans: found " + std::to_string(numbers.size()) +
                            ", expected at most " + std::to_string(kMaxPlans));
    }
    return numbers.size();
}

/** Plans that somebody else has made. */
class Scheduled final : public ReconfigurationPolicy
{
  public:
    explicit Scheduled(const PolicyContext& context)
    {
        const std::size_t count = CountPlans(context);
        for (std::size_t k = 0; k < count; ++k)
        {
            const std::string path = "plans." + std::to_string(k) + ".";
            const auto find = [&](const char* key) -> const std::string* {
                const auto at = context.options.find(path + key);
                return at == context.options.end() ? nullptr : &at->second;
            };
            const std::string* at = find("at");
            const std::string* before = find("before");
            const std::string* circuits = find("circuits");
            const std::string what = "reconfiguration." + path;
            if ((at == nullptr) == (before == nullptr) || circuits == nullptr)
            {
                throw SpecError(context.place,
                                what.substr(0, what.size() - 1) +
                                    ": found no plan, expected circuits, and one of at and before");
            }
            PlanTrigger trigger;
            if (before != nullptr)
            {
                trigger.before = NumberIn(*before, context.place, what + "before");
            }
            else
            {
                try
                {
                    trigger.at = ParseTime(*at);
                }
                catch (const std::invalid_argument& error)
                {
                    throw SpecError(context.place, what + "at: " + error.what());
                }
            }
            m_triggers.push_back(trigger);
            m_plans.push_back(ParseCircuits(*circuits, context.place, what + "circuits"));
            CheckPlan(m_plans.back(),
                      context.servers,
                      context.degree,
                      context.place + ": " + what + "circuits");
        }
        if (m_plans.empty())
        {
            throw SpecError(
                context.place,
                "reconfiguration.plans: found none, expected a list of {at: TIME, circuits: [0-1, "
                "...]}");
        }
    }

    std::vector<PlanTrigger> Triggers() const override
    {
        return m_triggers;
    }

    std::optional<CircuitPlan> Next(const PlanView& view) override
    {
        return m_plans[view.trigger];
    }

  private:
    std::vector<PlanTrigger> m_triggers;
    std::vector<CircuitPlan> m_plans; ///< by trigger
};

} // namespace

std::unique_ptr<ReconfigurationPolicy>
BuildScheduled(const PolicyContext& context)
{
    return std::make_unique<Scheduled>(context);
}

} // namespace topoopt::policies
