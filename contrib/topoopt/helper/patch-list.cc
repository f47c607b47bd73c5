// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/patch-list.h"

#include "ns3/csv-file.h"

namespace topoopt
{

std::uint64_t
WritePatchList(const std::string& file,
               const std::vector<std::pair<std::string, std::string>>& head,
               const std::vector<Circuit>& circuits)
{
    CsvFile csv(file, head, "panel,port_a,port_b,server_a,nic_a,server_b,nic_b");
    for (const Circuit& circuit : circuits)
    {
        csv.Add(circuit.panel).Add(circuit.portA).Add(circuit.portB);
        csv.Add(circuit.serverA).Add(circuit.nicA).Add(circuit.serverB).Add(circuit.nicB);
        csv.EndRow();
    }
    return csv.Close();
}

} // namespace topoopt
