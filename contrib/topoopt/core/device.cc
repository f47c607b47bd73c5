// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/device.h"

#include "topoopt/core/error.h"
#include "topoopt/core/yaml-document.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

namespace topoopt
{

namespace
{

double
RealOf(const YamlValue& value, const std::string& path)
{
    const std::string& text = ScalarOf(value, path, "a positive number");
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !(number > 0 && number < 1e20))
    {
        throw SpecError(value.place,
                        path + ": found " + value.Found() + ", expected a positive number");
    }
    return number;
}

std::map<std::string, double>
RealMap(const YamlSection& section, const std::string& key)
{
    const YamlValue& value = section.Require(key, "a section of numbers");
    const YamlSection inner(value, section.Path(key), {});
    std::map<std::string, double> out;
    for (std::size_t i = 0; i < value.keys.size(); ++i)
    {
        out[value.keys[i].text] = RealOf(value.items[i], inner.Path(value.keys[i].text));
    }
    return out;
}

double
At(const std::map<std::string, double>& map, const std::string& key, double missing)
{
    const auto found = map.find(key);
    return found == map.end() ? missing : found->second;
}

} // namespace

Device
LoadDevice(const std::string& name, const std::vector<std::string>& roots)
{
    const std::string file = FindData("devices.yaml", roots.empty() ? DataRoots() : roots);
    const YamlValue document = ReadYamlFile(file);
    const YamlSection top(document, "", {"version", "devices"});
    std::uint32_t version = 0;
    top.Count("version", 1, 1, version);
    const YamlValue& devices = top.Require("devices", "a section of devices");
    const YamlSection all(devices, "devices", {});
    const YamlValue* found = all.Find(name);
    if (found == nullptr)
    {
        std::vector<std::string> known;
        std::string list;
        for (const YamlKey& key : devices.keys)
        {
            known.push_back(key.text);
            list += (list.empty() ? "" : ", ") + key.text;
        }
        throw SpecError(file,
                        "found no device '" + Printable(name) + "', expected one of " + list +
                            DidYouMean(name, known));
    }
    const YamlSection section(*found,
                              "devices." + name,
                              {"memory", "bandwidth", "flops", "efficiency", "half", "launch"});
    Device device;
    device.name = name;
    device.memory = RealOf(section.Require("memory", "bytes"), section.Path("memory"));
    device.bandwidth = RealOf(section.Require("bandwidth", "bytes/s"), section.Path("bandwidth"));
    device.flops = RealMap(section, "flops");
    device.efficiency = RealMap(section, "efficiency");
    device.half = RealOf(section.Require("half", "matrix rows"), section.Path("half"));
    device.launch =
        RealOf(section.Require("launch", "microseconds"), section.Path("launch")) * 1e-6;
    return device;
}

MeasuredTable
LoadMeasured(const std::string& fileAndSet, const std::vector<std::string>& roots)
{
    const std::size_t slash = fileAndSet.rfind('/');
    if (slash == std::string::npos || slash == 0 || fileAndSet.find("..") != std::string::npos)
    {
        throw SpecError("measured",
                        "found '" + Printable(fileAndSet) +
                            "', expected FILE/SET of traces/compute, for example "
                            "flexnet-a100/dlrm-16, or none");
    }
    const std::string set = fileAndSet.substr(slash + 1);
    const std::string file = FindData("compute/" + fileAndSet.substr(0, slash) + ".yaml",
                                      roots.empty() ? DataRoots() : roots);
    const YamlValue document = ReadYamlFile(file);
    const YamlSection top(document, "", {"version", "device", "precision", "sets"});
    std::uint32_t version = 0;
    top.Count("version", 1, 1, version);
    MeasuredTable table;
    top.Text("device", table.device);
    top.Text("precision", table.precision);
    const YamlValue& sets = top.Require("sets", "a section of sets");
    const YamlSection all(sets, "sets", {});
    const YamlValue* found = all.Find(set);
    if (found == nullptr)
    {
        std::vector<std::string> known;
        std::string list;
        for (const YamlKey& key : sets.keys)
        {
            known.push_back(key.text);
            list += (list.empty() ? "" : ", ") + key.text;
        }
        throw SpecError(file,
                        "found no set '" + Printable(set) + "', expected one of " + list +
                            DidYouMean(set, known));
    }
    const YamlSection operators(*found, "sets." + set, {});
    for (std::size_t i = 0; i < found->keys.size(); ++i)
    {
        const std::string path = operators.Path(found->keys[i].text);
        const YamlValue& row = found->items[i];
        const YamlSection points(row, path, {});
        std::vector<MeasuredPoint>& out = table.rows[found->keys[i].text];
        for (std::size_t k = 0; k < row.keys.size(); ++k)
        {
            const YamlValue& times = row.items[k];
            MeasuredPoint point;
            char* end = nullptr;
            point.samples = std::strtod(row.keys[k].text.c_str(), &end);
            if (*end != '\0' || !(point.samples > 0 && point.samples < 1e12))
            {
                throw SpecError(row.keys[k].place,
                                path + ": found '" + Printable(row.keys[k].text) +
                                    "', expected a number of samples");
            }
            if (times.kind != YamlKind::List || times.items.size() != 2)
            {
                throw SpecError(times.place,
                                path + ": found " + times.Found() +
                                    ", expected [forward ms, backward ms]");
            }
            point.forwardMs = RealOf(times.items[0], path);
            point.backwardMs = RealOf(times.items[1], path);
            out.push_back(point);
        }
        std::sort(out.begin(), out.end(), [](const MeasuredPoint& a, const MeasuredPoint& b) {
            return a.samples < b.samples;
        });
        if (out.empty())
        {
            throw SpecError(row.place, path + ": found no times, expected some");
        }
    }
    return table;
}

MeasuredTable
LoadMeasuredJson(const std::string& file, std::uint32_t gpus)
{
    using Json = nlohmann::json;
    constexpr std::uintmax_t kMost = 64U << 20U;
    std::error_code code;
    const std::uintmax_t size = std::filesystem::file_size(file, code);
    if (code || size > kMost)
    {
        throw SpecError(file,
                        code ? "cannot be read: " + code.message()
                             : "found " + std::to_string(size) + " bytes, expected at most " +
                                   std::to_string(kMost));
    }
    Json document;
    try
    {
        std::ifstream in(file, std::ios::binary);
        document = Json::parse(in);
    }
    catch (const Json::exception& error)
    {
        throw SpecError(file, "found no JSON (" + Printable(error.what(), 160) + ")");
    }
    const auto number = [&](const Json& object, const char* key, const std::string& where) {
        const auto found = object.is_object() ? object.find(key) : object.end();
        const bool good = object.is_object() && found != object.end() && found->is_number();
        const double value = good ? found->get<double>() : 0;
        if (!(value > 0 && value < 1e12))
        {
            throw SpecError(file,
                            where + key + ": found " +
                                (good ? std::to_string(value) : "no number") +
                                ", expected a number above 0");
        }
        return value;
    };
    const double batch = number(document, "batch_size", "");
    const auto list = document.find("measurements");
    if (list == document.end() || !list->is_array() || list->empty())
    {
        throw SpecError(file, "measurements: found none, expected a list of measured operators");
    }
    MeasuredTable table;
    for (std::size_t i = 0; i < list->size(); ++i)
    {
        const Json& record = (*list)[i];
        const std::string where = "measurements[" + std::to_string(i) + "].";
        const auto text = [&](const char* key) {
            const auto found = record.is_object() ? record.find(key) : record.end();
            if (!record.is_object() || found == record.end() || !found->is_string())
            {
                throw SpecError(file, where + key + ": found no text, expected some");
            }
            return found->get<std::string>();
        };
        const std::string name = text("name");
        const std::string shape = text("pc_str");
        const std::string last = shape.substr(shape.rfind('-') + 1);
        char* end = nullptr;
        const unsigned long parts = std::strtoul(last.c_str(), &end, 10);
        if (last.empty() || last[0] < '0' || last[0] > '9' || *end != '\0' || parts == 0 ||
            parts > 1'000'000)
        {
            throw SpecError(file,
                            where + "pc_str: found '" + Printable(shape) +
                                "', expected numbers such as 2-1-16, the parts of the batch last");
        }
        MeasuredPoint point;
        const bool whole = name.rfind("Embed_", 0) == 0;
        point.samples = whole ? batch : batch / (static_cast<double>(parts) * gpus);
        point.forwardMs = number(record, "fw_time", where);
        point.backwardMs = number(record, "bw_time", where);
        table.rows[name].push_back(point);
    }
    for (auto& [name, points] : table.rows)
    {
        std::stable_sort(
            points.begin(),
            points.end(),
            [](const MeasuredPoint& a, const MeasuredPoint& b) { return a.samples < b.samples; });
        // Of an operator measured twice the first time counts, as in the reference.
        points.erase(std::unique(points.begin(),
                                 points.end(),
                                 [](const MeasuredPoint& a, const MeasuredPoint& b) {
                                     return a.samples == b.samples;
                                 }),
                     points.end());
    }
    return table;
}

ComputeTimes::ComputeTimes(const Model& model, const std::vector<std::string>& roots)
    : m_device(LoadDevice(model.device, roots)),
      m_precision(model.precision)
{
    if (m_device.flops.count(m_precision) == 0)
    {
        std::string list;
        for (const auto& [name, value] : m_device.flops)
        {
            list += (list.empty() ? "" : ", ") + name;
        }
        throw SpecError(model.file,
                        "precision: found '" + Printable(m_precision) + "', expected one of " +
                            list + " (device " + m_device.name + ")");
    }
    const std::string suffix = ".json";
    if (model.measured.size() > suffix.size() &&
        model.measured.compare(model.measured.size() - suffix.size(), suffix.size(), suffix) == 0)
    {
        m_table = LoadMeasuredJson(model.measured, model.gpus);
    }
    // Times of another device or precision would be wrong silently.
    else if (!model.measured.empty())
    {
        m_table = LoadMeasured(model.measured, roots);
        if (m_table.device != m_device.name || m_table.precision != m_precision)
        {
            m_table.rows.clear();
        }
    }
}

const std::vector<MeasuredPoint>*
ComputeTimes::Measured(const Operator& op) const
{
    const auto found = m_table.rows.find(op.measuredAs);
    return found == m_table.rows.end() ? nullptr : &found->second;
}

double
ComputeTimes::Roofline(const Operator& op,
                       double samples,
                       std::uint32_t tensorParts,
                       bool backward) const
{
    const double parts = tensorParts;
    const double flops = (backward ? op.backwardFlops : op.forwardFlops) * samples / parts;
    const double bytes = (backward ? 2.0 : 1.0) *
                         (op.trafficBytes * samples +
                          (op.IsTable() ? 0.0 : static_cast<double>(op.ParameterBytes()))) /
                         parts;
    const double rows = samples * static_cast<double>(op.positions);
    double peak = At(m_device.flops, m_precision, 1) * At(m_device.efficiency, m_precision, 0.5);
    const bool conv = op.kind == OperatorKind::Conv2d;
    peak *= conv ? At(m_device.efficiency, "convolution", 1.0) : 1.0;
    const double share = op.IsTable() ? At(m_device.efficiency, "gather", 0.5)
                                      : At(m_device.efficiency, "memory", 0.8);
    const double compute = flops / (peak * rows / (rows + m_device.half));
    const double memory = bytes / (m_device.bandwidth * share);
    return m_device.launch * (backward ? 2 : 1) + std::max(compute, memory);
}

SimTime
ComputeTimes::Time(const Operator& op,
                   double samples,
                   std::uint32_t tensorParts,
                   bool backward) const
{
    if (!op.fused.empty())
    {
        SimTime sum = 0;
        for (const Operator& part : op.fused)
        {
            sum += Time(part, samples, tensorParts, backward);
        }
        return sum;
    }
    const std::vector<MeasuredPoint>* rows = Measured(op);
    if (rows == nullptr)
    {
        return static_cast<SimTime>(
            std::llround(Roofline(op, samples, tensorParts, backward) * 1e12));
    }
    const auto value = [&](const MeasuredPoint& point) {
        return backward ? point.backwardMs : point.forwardMs;
    };
    const auto above =
        std::lower_bound(rows->begin(),
                         rows->end(),
                         samples,
                         [](const MeasuredPoint& point, double s) { return point.samples < s; });
    double ms = 0;
    if (above != rows->end() && above->samples == samples)
    {
        if (tensorParts == 1)
        {
            // The tables restate files of single-precision numbers; the reference multiplies in that
            // precision and truncates.
            return static_cast<SimTime>(static_cast<float>(value(*above)) * 1e9F);
        }
        ms = value(*above);
    }
    else if (above == rows->end())
    {
        ms = value(rows->back()) * samples / rows->back().samples;
    }
    else if (above == rows->begin())
    {
        const double fixed = std::min(m_device.launch * 1e3 * (backward ? 2 : 1), value(*above));
        ms = fixed + (value(*above) - fixed) * samples / above->samples;
    }
    else
    {
        const MeasuredPoint& below = *(above - 1);
        const double share = (samples - below.samples) / (above->samples - below.samples);
        ms = value(below) + (value(*above) - value(below)) * share;
    }
    return static_cast<SimTime>(ms * 1e9 / tensorParts);
}

SimTime
ComputeTimes::Forward(const Operator& op, double samples, std::uint32_t tensorParts) const
{
    return Time(op, samples, tensorParts, false);
}

SimTime
ComputeTimes::Backward(const Operator& op, double samples, std::uint32_t tensorParts) const
{
    return Time(op, samples, tensorParts, true);
}

SimTime
ComputeTimes::OptimizerStep(const Model& model, double weightBytes) const
{
    // Reads weight, gradient and state, writes weight and state.
    const double elements = weightBytes / model.parameterBytes;
    const double bytes = elements * (3.0 * model.parameterBytes + 2.0 * model.optimizerBytes);
    const double seconds =
        m_device.launch + bytes / (m_device.bandwidth * At(m_device.efficiency, "memory", 0.8));
    return static_cast<SimTime>(std::llround(seconds * 1e12));
}

} // namespace topoopt
