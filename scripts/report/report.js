// SPDX-License-Identifier: GPL-2.0-only
// The report's behaviour: unpacks the data, draws with ECharts, lists with Tabulator. No request leaves the file.
"use strict";

(async () => {
    const byId = (id) => document.getElementById(id);
    const TIME_UNITS = [[1e12, "s"], [1e9, "ms"], [1e6, "µs"], [1e3, "ns"], [1, "ps"]];
    const SIZE_UNITS = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]];
    const LINES = ["solid", "dashed", "dotted", [8, 3, 2, 3], [4, 2, 1, 2, 1, 2], [10, 4], [3, 3], [10, 3, 2, 3]];
    // Dark and middling hues of the printed pictures that a dark page would swallow.
    const ON_DARK = { "#222222": "#e2e2e2", "#0072B2": "#4fabe3", "#8C564B": "#c48d80", "#999999": "#b5b5b5" };
    const RING_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C564B", "#B5BD00"];
    const KIND_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C564B", "#B5BD00"];
    const LOAD_COLOURS = ["#3b5b92", "#2a9d8f", "#e9c46a", "#d1495b"];
    const MATRIX_COLOURS = ["#f7e7a6", "#8ccf7e", "#2a9d8f", "#2c5f8a", "#3b1f5b"];
    const TOP_FLOWS = 5;

    async function unpack(id) {
        const bytes = Uint8Array.from(atob(byId(id).textContent), (c) => c.charCodeAt(0));
        const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
        return JSON.parse(await new Response(stream).text());
    }

    const digits = (value, count = 4) => Number(value.toPrecision(count)).toLocaleString("en-GB", { maximumFractionDigits: 12 });
    const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

    function time(ps) {
        if (!known(ps)) return "–";
        const [scale, unit] = TIME_UNITS.find(([size]) => Math.abs(ps) >= size) ?? TIME_UNITS[4];
        return `${digits(ps / scale)} ${unit}`;
    }

    function size(bytes) {
        if (!known(bytes)) return "–";
        const found = SIZE_UNITS.find(([scale]) => Math.abs(bytes) >= scale);
        return found ? `${digits(bytes / found[0], 3)} ${found[1]}` : `${bytes} B`;
    }

    const count = (value) => (known(value) ? value.toLocaleString("en-GB") : "–");
    const escape = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
    const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

    function mix(colours, share) {
        const place = Math.min(Math.max(share, 0), 1) * (colours.length - 1);
        const low = Math.min(Math.floor(place), colours.length - 2);
        const part = (colour, i) => parseInt(colour.slice(1 + 2 * i, 3 + 2 * i), 16);
        const blend = (i) => Math.round(part(colours[low], i) + (place - low) * (part(colours[low + 1], i) - part(colours[low], i)));
        return `rgb(${blend(0)}, ${blend(1)}, ${blend(2)})`;
    }

    const data = await unpack("data");
    const runs = data.runs;
    const state = { run: 0, table: "flows", filter: null, link: -1, cell: -1 };

    // ---- theme -------------------------------------------------------------------------------------------------

    const systemDark = matchMedia("(prefers-color-scheme: dark)");
    let printing = false;

    function theme() {
        return document.documentElement.dataset.theme ?? "auto";
    }

    function isDark() {
        return !printing && (theme() === "dark" || (theme() === "auto" && systemDark.matches));
    }

    function setTheme(name) {
        document.documentElement.dataset.theme = name;
        byId("theme").textContent = `Theme: ${name}`;
        try {
            localStorage.setItem("topoopt-theme", name);
        } catch {
            // Some browsers refuse storage to files: the choice then lasts as long as the page.
        }
        redraw();
    }

    const colourOf = (run) => (isDark() ? ON_DARK[run.colour] ?? run.colour : run.colour);

    // ---- charts ------------------------------------------------------------------------------------------------

    const charts = new Map();

    /** A chart that is made anew when the theme or the run changes. `option` returns null and a reason when there is nothing. */
    function addChart(id, option, describe) {
        const box = byId(id);
        box.tabIndex = 0;
        box.setAttribute("role", "group");
        const entry = { id, box, option, describe, chart: null };
        charts.set(id, entry);
        new ResizeObserver(() => entry.chart?.resize()).observe(box);
        box.addEventListener("keydown", (event) => zoomKey(entry, event));
        return entry;
    }

    function draw(entry) {
        const made = entry.option();
        const renderer = printing ? "svg" : "canvas";
        if (entry.chart && (made.nothing !== undefined || entry.renderer !== renderer)) {
            // Painting in parts would go on after the chart is gone, and fail: an empty picture ends it.
            entry.chart.clear();
            entry.chart.getZr().flush();
            entry.chart.dispose();
            entry.chart = null;
        }
        entry.box.classList.toggle("none", made.nothing !== undefined);
        entry.box.setAttribute("aria-label", made.nothing ?? entry.describe());
        if (made.nothing !== undefined) {
            entry.box.textContent = made.nothing;
            return;
        }
        if (!entry.chart) {
            entry.box.textContent = "";
            entry.renderer = renderer;
            entry.chart = echarts.init(entry.box, null, { renderer });
            entry.wire?.(entry.chart);
        }
        entry.chart.resize();
        entry.chart.setOption({ animation: false, textStyle: { color: css("--text") }, ...made }, true);
        if (printing) entry.chart.getZr().flush();
    }

    function redraw() {
        for (const entry of charts.values()) draw(entry);
        for (const [i, card] of [...byId("cards").children].entries()) card.style.setProperty("--run", colourOf(runs[i]));
        drawScale();
    }

    /** + and - zoom, arrows move, 0 shows all. */
    function zoomKey(entry, event) {
        const zoom = entry.chart?.getOption().dataZoom?.[0];
        if (!zoom || event.target !== entry.box || event.ctrlKey || event.metaKey || event.altKey) return;
        const width = zoom.end - zoom.start;
        const moves = {
            "+": [width / 4, -width / 4],
            "=": [width / 4, -width / 4],
            "-": [-width / 2, width / 2],
            ArrowLeft: [-width / 10, -width / 10],
            ArrowRight: [width / 10, width / 10],
            0: [-100, 100],
        };
        const move = moves[event.key];
        if (!move) return;
        event.preventDefault();
        let [start, end] = [zoom.start + move[0], zoom.end + move[1]];
        if (event.key.startsWith("Arrow") && (start < 0 || end > 100)) return;
        [start, end] = [Math.max(start, 0), Math.min(end, 100)];
        if (end - start > 1e-6) entry.chart.dispatchAction({ type: "dataZoom", dataZoomIndex: 0, start, end });
    }

    const axisLook = () => ({
        axisLine: { lineStyle: { color: css("--soft") } },
        axisLabel: { color: css("--text") },
        splitLine: { lineStyle: { color: css("--line") } },
        nameTextStyle: { color: css("--text") },
        nameLocation: "middle",
    });
    const tooltipLook = () => ({
        backgroundColor: css("--raised"),
        borderColor: css("--line"),
        textStyle: { color: css("--text"), fontSize: 12 },
        confine: true,
    });
    const sliderLook = () => ({ textStyle: { color: css("--soft") }, borderColor: css("--line"), brushSelect: false });

    function legendText(run) {
        if (!run.flows.present) return `${run.label} (no flow table)`;
        const total = run.network_flows;
        return run.finished === total ? `${run.label} (n = ${total} flows)` : `${run.label} (n = ${run.finished} of ${total} flows)`;
    }

    // ---- flow completion time ----------------------------------------------------------------------------------

    function fctOption() {
        const tail = byId("fct-curve").value === "tail";
        const logarithmic = byId("fct-scale").value === "log";
        const middle = runs.flatMap((run) => run.cdf.x).sort((a, b) => a - b);
        if (!middle.length) return { nothing: runs.some((run) => run.flows.present) ? "No flow finished." : "No flow table in these results." };
        const [scale, unit] = TIME_UNITS.find(([least]) => middle[middle.length >> 1] >= least) ?? TIME_UNITS[4];
        const series = runs.map((run, i) => {
            const points = run.cdf.x.map((x, k) => [x / scale, tail ? 1 - (k ? run.cdf.y[k - 1] : 0) : run.cdf.y[k]]);
            if (!tail && points.length) points.unshift([points[0][0], 0]);
            return {
                name: legendText(run),
                type: "line",
                step: tail ? "start" : "end",
                showSymbol: false,
                data: points,
                color: colourOf(run),
                lineStyle: { width: i === state.run ? 3 : 2, type: LINES[i % LINES.length] },
                emphasis: { focus: "series" },
            };
        });
        return {
            legend: { textStyle: { color: css("--text") }, top: 6, left: 20, width: byId("fct-chart").clientWidth - 180, type: printing ? "plain" : "scroll" },
            grid: { left: 64, right: 30, top: printing ? 24 + 22 * Math.ceil(runs.length / 2) : 44, bottom: 84 },
            tooltip: {
                ...tooltipLook(),
                trigger: "axis",
                formatter: (items) =>
                    items
                        .map((item) => `${item.marker}${escape(item.seriesName)}: ${digits(item.data[1])} of flows ${tail ? "≥" : "≤"} ${digits(item.data[0])} ${unit}`)
                        .join("<br>"),
            },
            xAxis: { ...axisLook(), type: logarithmic ? "log" : "value", name: `flow completion time [${unit}]`, nameGap: 28 },
            yAxis: {
                ...axisLook(),
                type: tail ? "log" : "value",
                max: 1,
                name: tail ? "fraction of flows ≥ x" : "fraction of flows ≤ x",
                nameGap: 46,
            },
            dataZoom: [
                { type: "inside", filterMode: "none" },
                { type: "slider", filterMode: "none", bottom: 10, height: 22, ...sliderLook() },
            ],
            toolbox: { show: !printing, right: 8, top: 4, feature: { dataZoom: { yAxisIndex: false, filterMode: "none" }, restore: {}, saveAsImage: {} } },
            aria: { enabled: true },
            series,
        };
    }

    // ---- which flows belong to a link ----------------------------------------------------------------------------

    const rowsCache = new Map();

    /** The table of a run as one object per row. */
    function rowsOf(run, name) {
        const key = `${run.label}\n${name}`;
        if (!rowsCache.has(key)) {
            const columns = Object.entries(run[name].columns);
            const rows = Array.from({ length: run[name].kept }, () => ({}));
            for (const [column, values] of columns) {
                if (Array.isArray(values)) values.forEach((value, i) => (rows[i][column] = value));
                else values.codes.forEach((code, i) => (rows[i][column] = values.names[code]));
            }
            rowsCache.set(key, rows);
        }
        return rowsCache.get(key);
    }

    const pathsCache = new Map();

    /** Set of row numbers of the flows that cross each link, when the flow table tells paths (link ids); else null. */
    function flowsByLink(run) {
        if (!run.flows.columns.path) return null;
        if (!pathsCache.has(run.label)) {
            const index = new Map();
            rowsOf(run, "flows").forEach((row, i) => {
                for (const link of String(row.path).match(/\d+/g) ?? []) {
                    if (!index.has(Number(link))) index.set(Number(link), new Set());
                    index.get(Number(link)).add(i);
                }
            });
            pathsCache.set(run.label, index);
        }
        return pathsCache.get(run.label);
    }

    /** A filter {text, test(row, i)} for the flows of a directed link, or null when nothing is known of them. */
    function linkFilter(run, id, src, dst) {
        const name = (node) => run.topology.nodes[node][0];
        const servers = run.topology.servers;
        const paths = flowsByLink(run);
        if (paths) {
            const inside = paths.get(id) ?? new Set();
            return { text: `over link ${id}, ${name(src)} → ${name(dst)}`, test: (_, i) => inside.has(i) };
        }
        if (src < servers && dst < servers) {
            return { text: `from ${name(src)} to ${name(dst)}`, test: (row) => row.src_server === src && row.dst_server === dst };
        }
        if (src < servers) return { text: `from ${name(src)}, by any of its links`, test: (row) => row.src_server === src };
        if (dst < servers) return { text: `to ${name(dst)}, by any of its links`, test: (row) => row.dst_server === dst };
        return null;
    }

    /** What is known of a link, as lines of text. */
    function linkText(run, link) {
        const [id, src, dst, rate, ring, mp] = link;
        const name = (node) => run.topology.nodes[node][0];
        const row = linkRows(run).get(id);
        const purpose = [ring === null ? "" : `ring ${ring}`, mp ? "MP" : ""].filter(Boolean).join(", ");
        const lines = [`link ${id}: ${name(src)} → ${name(dst)}, ${digits(rate / 1e9)} Gb/s${purpose ? `, ${purpose}` : ""}`];
        if (row) {
            lines.push(`load ${size(row.bytes)}, utilisation ${digits(row.utilisation ?? 0, 3)}, longest queue ${size(row.max_queue_bytes)}, ${count(row.drops)} drops`);
        }
        const filter = linkFilter(run, id, src, dst);
        if (!filter) lines.push("its flows are not known: the flow table holds no paths");
        else {
            const flows = rowsOf(run, "flows").filter(filter.test);
            const top = [...flows].sort((a, b) => b.bytes - a.bytes).slice(0, TOP_FLOWS);
            const some = top.map((flow) => `${flow.flow_id} (${flow.kind}, ${size(flow.bytes)}, ${flow.status === "done" ? time(flow.fct_ps) : flow.status})`);
            lines.push(`${count(flows.length)} flows ${filter.text}${some.length ? `; largest: ${some.join(", ")}` : ""}`);
        }
        return lines;
    }

    const linkRowsCache = new Map();

    function linkRows(run) {
        if (!linkRowsCache.has(run.label)) linkRowsCache.set(run.label, new Map(rowsOf(run, "links").map((row) => [row.link_id, row])));
        return linkRowsCache.get(run.label);
    }

    // ---- topology ------------------------------------------------------------------------------------------------

    function linkColour(run, link) {
        if (byId("topology-colour").value === "ring") {
            if (link[5]) return css("--text");
            return link[4] === null ? css("--soft") : RING_COLOURS[link[4] % RING_COLOURS.length];
        }
        const row = linkRows(run).get(link[0]);
        return row ? mix(LOAD_COLOURS, row.utilisation ?? 0) : css("--cold");
    }

    function drawScale() {
        const byLoad = byId("topology-colour").value === "load";
        byId("topology-scale").innerHTML = byLoad
            ? `utilisation 0 <i style="background: linear-gradient(90deg, ${LOAD_COLOURS.join(", ")})"></i> 1`
            : "each ring its colour, MP links in the text's";
    }

    function topologyOption() {
        const run = runs[state.run];
        const wiring = run.topology;
        if (!wiring) return { nothing: "No topology.json in these results." };
        const many = wiring.nodes.length > 48;
        const box = byId("topology-chart");
        const side = Math.min(box.clientWidth, box.clientHeight) - 80;
        const parallel = new Map();
        const links = wiring.links.map((link) => {
            const key = `${link[1]} ${link[2]}`;
            const number = parallel.get(key) ?? 0;
            parallel.set(key, number + 1);
            return {
                source: String(link[1]),
                target: String(link[2]),
                value: link[0],
                lineStyle: {
                    color: linkColour(run, link),
                    width: (link[5] ? 3.2 : 1.8) * (wiring.links.length > 600 ? 0.5 : 1),
                    // Both directions of a cable bend apart, and parallel cables further, so that each can be pointed at.
                    curveness: 0.06 + 0.06 * number,
                    opacity: 0.9,
                },
            };
        });
        return {
            tooltip: {
                ...tooltipLook(),
                formatter: (item) =>
                    item.dataType === "edge"
                        ? linkText(run, wiring.links[item.dataIndex]).map(escape).join("<br>")
                        : `${escape(wiring.nodes[item.dataIndex][0])}: ${escape(wiring.nodes[item.dataIndex][1])}`,
                extraCssText: "white-space: normal; max-width: 30rem",
            },
            aria: { enabled: true },
            series: [
                {
                    type: "graph",
                    layout: "none",
                    roam: true,
                    left: "center",
                    top: "middle",
                    width: side,
                    height: side,
                    edgeSymbol: ["none", many ? "none" : "arrow"],
                    edgeSymbolSize: 6,
                    data: wiring.nodes.map(([name, kind, x, y], i) => ({
                        id: String(i),
                        name,
                        x: x * 500,
                        y: -y * 500,
                        symbol: i < wiring.servers ? "circle" : "rect",
                        symbolSize: many ? 7 : 20,
                        itemStyle: { color: i < wiring.servers ? css("--back") : css("--cold"), borderColor: css("--text"), borderWidth: 1.2 },
                        label: { show: !many || (i < wiring.servers && i % Math.ceil(wiring.servers / 32) === 0), fontSize: 9, color: css("--text"), position: many ? "right" : i < wiring.servers ? "inside" : "top" },
                    })),
                    links,
                    emphasis: { lineStyle: { width: 6 } },
                },
            ],
        };
    }

    function chooseLink(number) {
        const run = runs[state.run];
        const chart = charts.get("topology-chart").chart;
        if (!chart) return;
        if (state.link >= 0) chart.dispatchAction({ type: "downplay", seriesIndex: 0, dataType: "edge", dataIndex: state.link });
        state.link = (number + run.topology.links.length) % run.topology.links.length;
        chart.dispatchAction({ type: "highlight", seriesIndex: 0, dataType: "edge", dataIndex: state.link });
        byId("topology-readout").textContent = linkText(run, run.topology.links[state.link]).join("\n");
    }

    function filterByLink(number) {
        const run = runs[state.run];
        const [id, src, dst] = run.topology.links[number];
        const filter = linkFilter(run, id, src, dst);
        if (filter) setFilter(filter);
    }

    function wireTopology(chart) {
        chart.on("mouseover", { dataType: "edge" }, (item) => {
            byId("topology-readout").textContent = linkText(runs[state.run], runs[state.run].topology.links[item.dataIndex]).join("\n");
        });
        chart.on("click", { dataType: "edge" }, (item) => filterByLink(item.dataIndex));
        chart.on("click", { dataType: "node" }, (item) => {
            const run = runs[state.run];
            if (item.dataIndex >= run.topology.servers) return;
            setFilter({
                text: `from or to ${run.topology.nodes[item.dataIndex][0]}`,
                test: (row) => row.src_server === item.dataIndex || row.dst_server === item.dataIndex,
            });
        });
    }

    // ---- matrix --------------------------------------------------------------------------------------------------

    function matrixOf(run) {
        return run.matrices[byId("matrix-part").value];
    }

    function fillMatrixParts() {
        const select = byId("matrix-part");
        const before = select.value;
        const names = Object.keys(runs[state.run].matrices);
        select.innerHTML = names.map((name) => `<option>${escape(name)}</option>`).join("");
        if (names.includes(before)) select.value = before;
    }

    function matrixOption() {
        const run = runs[state.run];
        const matrix = matrixOf(run);
        if (!matrix) return { nothing: "No traffic matrix in these results." };
        const part = byId("matrix-part").value;
        // One scale for all runs, so that their pictures compare.
        const all = runs.flatMap((other) => (other.matrices[part] ? other.matrices[part].bytes : []));
        const low = Math.log10(all.reduce((a, b) => Math.min(a, b), Infinity));
        const high = Math.log10(all.reduce((a, b) => Math.max(a, b), 0));
        const names = Array.from({ length: matrix.n }, (_, i) => String(i));
        const axis = { ...axisLook(), type: "category", data: names, splitArea: { show: false }, splitLine: { show: false } };
        return {
            grid: { left: 64, right: 120, top: 20, bottom: 56 },
            tooltip: { ...tooltipLook(), formatter: (item) => escape(cellText(matrix, item.dataIndex)) },
            xAxis: { ...axis, name: "destination server", nameGap: 30 },
            yAxis: { ...axis, name: "source server", nameGap: 40, inverse: true },
            visualMap: {
                min: low,
                max: high > low ? high : low + 1,
                dimension: 2,
                calculable: true,
                orient: "vertical",
                right: 6,
                top: "middle",
                itemHeight: 300,
                formatter: (value) => size(Math.round(10 ** value)),
                textStyle: { color: css("--text") },
                inRange: { color: MATRIX_COLOURS },
            },
            aria: { enabled: true },
            series: [
                {
                    type: "heatmap",
                    data: matrix.src.map((src, i) => [matrix.dst[i], src, Math.log10(matrix.bytes[i])]),
                    emphasis: { itemStyle: { borderColor: css("--text"), borderWidth: 2 } },
                    progressive: 0,
                },
            ],
        };
    }

    function cellText(matrix, i) {
        return `server ${matrix.src[i]} → server ${matrix.dst[i]}: ${count(matrix.bytes[i])} B (${size(matrix.bytes[i])}, ${digits((100 * matrix.bytes[i]) / matrix.total, 3)} % of all)`;
    }

    function chooseCell(step) {
        const matrix = matrixOf(runs[state.run]);
        const chart = charts.get("matrix-chart").chart;
        if (!chart) return;
        if (state.cell >= 0) chart.dispatchAction({ type: "downplay", seriesIndex: 0, dataIndex: state.cell });
        state.cell = (state.cell + step + matrix.src.length) % matrix.src.length;
        chart.dispatchAction({ type: "highlight", seriesIndex: 0, dataIndex: state.cell });
        byId("matrix-readout").textContent = cellText(matrix, state.cell);
    }

    function filterByCell(i) {
        const matrix = matrixOf(runs[state.run]);
        const [src, dst] = [matrix.src[i], matrix.dst[i]];
        setFilter({ text: `from server ${src} to server ${dst}`, test: (row) => row.src_server === src && row.dst_server === dst });
    }

    function wireMatrix(chart) {
        chart.on("mouseover", (item) => {
            if (item.seriesType === "heatmap") byId("matrix-readout").textContent = cellText(matrixOf(runs[state.run]), item.dataIndex);
        });
        chart.on("click", (item) => {
            if (item.seriesType === "heatmap") filterByCell(item.dataIndex);
        });
    }

    // ---- timeline --------------------------------------------------------------------------------------------------

    function timelineOption() {
        const run = runs[state.run];
        const bars = run.timeline;
        if (!bars.row.length) return { nothing: "No task or operation finished." };
        const end = bars.end.reduce((a, b) => Math.max(a, b), 0);
        const [scale, unit] = TIME_UNITS.find(([least]) => end >= least) ?? TIME_UNITS[4];
        const left = bars.total - bars.row.length;
        byId("timeline-hint").textContent =
            `n = ${count(bars.total)} intervals${left ? `, the ${count(left)} shortest left out` : ""}; upper half computation, lower half ` +
            "communication. Wheel or + and − zoom, arrows move, 0 shows all.";
        const others = bars.kinds.filter((_, code) => !bars.compute[code]).sort();
        const series = bars.kinds.map((kind, code) => {
            const colour = bars.compute[code] ? "#9aa3ab" : KIND_COLOURS[others.indexOf(kind) % KIND_COLOURS.length];
            const items = [];
            bars.kind.forEach((own, i) => {
                if (own === code) items.push([bars.row[i], bars.start[i] / scale, bars.end[i] / scale, i]);
            });
            return {
                name: kind,
                type: "custom",
                color: colour,
                encode: { x: [1, 2], y: 0 },
                data: items,
                progressive: 0,
                clip: true,
                renderItem: (params, api) => {
                    const [x, y] = api.coord([api.value(1), api.value(0)]);
                    const right = api.coord([api.value(2), api.value(0)])[0];
                    const height = Math.max(api.size([0, 1])[1] * 0.42, 1);
                    const area = params.coordSys;
                    if (right < area.x || x > area.x + area.width) return null;
                    // Intervals that fall on the same pixel of the same row are drawn once.
                    if (right - x < 0.7) {
                        const pixel = `${api.value(0)} ${Math.round(x)}`;
                        params.context.seen ??= new Set();
                        if (params.context.seen.has(pixel)) return null;
                        params.context.seen.add(pixel);
                    }
                    const clipped = Math.max(x, area.x);
                    const width = Math.max(Math.min(right, area.x + area.width) - clipped, 0.7);
                    const top = bars.compute[code] ? y - height : y;
                    return { type: "rect", shape: { x: clipped, y: top, width, height }, style: { fill: colour } };
                },
            };
        });
        return {
            legend: { textStyle: { color: css("--text") }, top: 6, type: "scroll" },
            grid: { left: 90, right: 50, top: 40, bottom: 84 },
            tooltip: {
                ...tooltipLook(),
                formatter: (item) => {
                    const i = item.data[3];
                    const length = bars.end[i] - bars.start[i];
                    return `${escape(bars.rows[bars.row[i]])}: ${escape(bars.names[bars.name[i]])} (${escape(item.seriesName)})<br>${time(bars.start[i])} to ${time(bars.end[i])}, ${time(length)}`;
                },
            },
            xAxis: { ...axisLook(), type: "value", min: 0, max: end / scale, name: `simulated time [${unit}]`, nameGap: 26, axisLabel: { color: css("--text"), formatter: (value) => digits(value, 6) } },
            yAxis: { ...axisLook(), type: "category", data: bars.rows, inverse: true, splitLine: { show: false } },
            dataZoom: [
                { type: "inside", filterMode: "none", xAxisIndex: 0 },
                { type: "slider", filterMode: "none", xAxisIndex: 0, bottom: 10, height: 22, showDataShadow: false, ...sliderLook(), labelFormatter: (value) => digits(value, 5) },
                { type: "slider", filterMode: "none", yAxisIndex: 0, right: 8, width: 16, showDataShadow: false, showDetail: false, ...sliderLook() },
            ],
            series,
        };
    }

    // ---- cards -----------------------------------------------------------------------------------------------------

    const mean = (values) => (values?.length ? values.reduce((a, b) => a + b, 0) / values.length : null);

    function card(run, i) {
        const summary = run.summary;
        const own = mean(summary.iteration_time_ps);
        const first = mean(runs[0].summary.iteration_time_ps);
        const ratio = known(own) && known(first) && first > 0 ? own / first : null;
        const late = (value) => (value === null && run.network_flows ? "unfinished" : time(value));
        const factor = (value) => (known(value) ? digits(value) : run.network_flows ? "unfinished" : "–");
        const facts = [
            [summary.jobs ? "jobs" : "iterations", count(summary.iteration_time_ps?.length)],
            ["lower bound", time(run.bound_ps)],
            ["flows", count(summary.flows)],
            // Without a flow table there is what the program itself counted.
            [
                "FCT p50 / p99",
                run.flows.present
                    ? `${late(run.fct.p50)} / ${late(run.fct.p99)}`
                    : [summary.fct_p50_ps, summary.fct_p99_ps].map((value) => (value === null ? "unfinished" : time(value))).join(" / "),
            ],
            ["FCT max (finished)", time(run.flows.present ? run.fct.max : summary.fct_max_ps)],
            ["slowdown p50 / p99", `${factor(run.slowdown.p50)} / ${factor(run.slowdown.p99)}`],
            ["demand", size(summary.demand_bytes)],
            ["on the wire", size(summary.wire_bytes)],
            ["bandwidth tax", known(summary.bandwidth_tax) ? digits(summary.bandwidth_tax) : "–"],
            ["packet-hops", count(summary.packet_hops)],
            ["events", count(summary.events)],
            ["run time", known(summary.run_s) ? `${digits(summary.run_s, 3)} s` : "–"],
            ["cost", known(summary.cost_usd) && summary.cost_usd >= 0 ? `$${count(Math.round(summary.cost_usd))}` : "–"],
            ["fingerprint", summary.fingerprint ?? "–"],
        ];
        const box = document.createElement("button");
        box.type = "button";
        box.className = "card";
        box.dataset.run = run.label;
        box.setAttribute("aria-pressed", "false");
        const late_flows = summary.unfinished ? `<span class="bad">${count(summary.unfinished)} unfinished</span>` : "";
        box.innerHTML =
            `<strong>${escape(run.label)}</strong><span class="big" data-field="iteration">${time(own)}</span>` +
            `<span class="ratio" data-field="ratio">${ratio === null ? "" : `× ${digits(ratio, 3)}`}</span> ${late_flows}` +
            `<span class="facts">${facts.map(([name, value]) => `<span>${name}</span><span data-field="${escape(name)}">${escape(value)}</span>`).join("")}</span>`;
        box.addEventListener("click", () => selectRun(i));
        return box;
    }

    function selectRun(i) {
        state.run = i;
        state.filter = null;
        state.link = -1;
        state.cell = -1;
        [...byId("cards").children].forEach((box, k) => box.setAttribute("aria-pressed", String(k === i)));
        for (const name of document.querySelectorAll(".run-name")) name.textContent = `– ${runs[i].label}`;
        byId("topology-readout").textContent = "Point at a link for its load and flows, click it to filter the flow table; arrows and Enter do the same.";
        byId("matrix-readout").textContent = "Click a cell to filter the flow table; arrows and Enter do the same.";
        fillMatrixParts();
        redraw();
        showTable();
    }

    // ---- tables ------------------------------------------------------------------------------------------------------

    let table = null;
    let tableBuilt = false; // it is built a moment after its making and takes no filter before
    const TIMES = new Set(["start_ps", "end_ps", "fct_ps", "ideal_ps", "duration_ps", "busy_ps"]);

    /** `>5`, `<5`, `3..7`, a number, or text that the cell contains. */
    function headerTest(wanted, value) {
        const text = String(wanted).trim();
        const range = text.match(/^(-?[\d.e+]+)\.\.(-?[\d.e+]+)$/i);
        if (range) return known(value) && value >= Number(range[1]) && value <= Number(range[2]);
        const bound = text.match(/^([<>]=?)\s*(-?[\d.e+]+)$/i);
        if (bound) {
            if (!known(value)) return false;
            const limit = Number(bound[2]);
            return { "<": value < limit, "<=": value <= limit, ">": value > limit, ">=": value >= limit }[bound[1]];
        }
        if (typeof value === "number" && text !== "" && !Number.isNaN(Number(text))) return value === Number(text);
        return String(value ?? "").toLowerCase().includes(text.toLowerCase());
    }

    function column(name, values) {
        const numeric = Array.isArray(values);
        return {
            title: name,
            field: name,
            width: TIMES.has(name) ? 150 : numeric ? 118 : 130,
            sorter: numeric ? "number" : "string",
            sorterParams: { alignEmptyValues: "bottom" },
            hozAlign: numeric ? "right" : "left",
            headerFilter: "input",
            headerFilterFunc: headerTest,
            headerFilterPlaceholder: "filter",
            formatter: (cell) => (cell.getValue() === null ? "" : escape(cell.getValue())),
            tooltip: TIMES.has(name) ? (_, cell) => time(cell.getValue()) : numeric ? false : true,
        };
    }

    function showTable() {
        table?.destroy();
        const run = runs[state.run];
        const source = run[state.table];
        for (const tab of document.querySelectorAll("[role=tab]")) {
            const own = tab.dataset.table === state.table;
            tab.setAttribute("aria-selected", String(own));
            tab.tabIndex = own ? 0 : -1;
            if (own) byId("table-panel").setAttribute("aria-labelledby", tab.id);
        }
        const order = { flows: [], ops: ["op_id", "kind", "name", "group", "ranks", "bytes", "duration_ps"], links: ["link_id", "src", "dst"] }[state.table];
        const names = Object.keys(source.columns);
        names.sort((a, b) => (order.includes(a) ? order.indexOf(a) : 99) - (order.includes(b) ? order.indexOf(b) : 99));
        const rows = rowsOf(run, state.table);
        rows.forEach((row, i) => (row._row = i));
        tableBuilt = false;
        const made = new Tabulator("#table", {
            data: rows,
            columns: names.map((name) => column(name, source.columns[name])),
            height: 460,
            renderVertical: "virtual",
            layout: "fitDataFill",
            placeholder: source.present ? "No row" : `These results hold no such table`,
            columnDefaults: { resizable: true },
        });
        table = made;
        made.on("tableBuilt", () => {
            if (made !== table) return;
            tableBuilt = true;
            for (const part of made.getColumns()) {
                const head = part.getElement();
                head.tabIndex = 0;
                head.addEventListener("keydown", (event) => {
                    if (event.target !== head || (event.key !== "Enter" && event.key !== " ")) return;
                    event.preventDefault();
                    const now = made.getSorters().find((sorter) => sorter.field === part.getField());
                    made.setSort(part.getField(), now?.dir === "asc" ? "desc" : "asc");
                });
            }
            applyFilter();
        });
        made.on("dataFiltered", (_, shown) => {
            if (made === table) showCount(shown.length);
        });
    }

    function showCount(shown) {
        const source = runs[state.run][state.table];
        const cut = source.kept < source.total ? `; the file has ${count(source.total)}, the largest are here` : "";
        byId("table-count").textContent = `${count(shown)} of ${count(source.kept)} rows${cut}`;
    }

    const PRINTED_ROWS = 30;

    /** Paper neither scrolls nor shows what lies beyond its edge: the first rows in all their columns. */
    function fillPaperTable() {
        const rows = tableBuilt ? table.getData("active") : [];
        const names = tableBuilt ? table.getColumns().map((part) => part.getField()) : [];
        const line = (kind, cells) => {
            const made = document.createElement("tr");
            for (const text of cells) {
                const cell = document.createElement(kind);
                cell.textContent = text ?? "";
                made.append(cell);
            }
            return made;
        };
        const caption = document.createElement("caption");
        caption.textContent = `${{ flows: "Flows", ops: "Operations", links: "Links" }[state.table]}: ${
            rows.length > PRINTED_ROWS ? `first ${PRINTED_ROWS} of ` : ""
        }${count(rows.length)} rows`;
        byId("paper-table").replaceChildren(
            caption,
            line("th", names),
            ...rows.slice(0, PRINTED_ROWS).map((row) => line("td", names.map((name) => row[name]))),
        );
    }

    function applyFilter() {
        const active = state.table === "flows" ? state.filter : null;
        byId("filter-text").textContent = active ? `flows ${active.text}` : "";
        byId("filter-clear").hidden = !active;
        if (!tableBuilt) return;
        if (active) table.setFilter((row) => active.test(row, row._row));
        else table.clearFilter(false);
        showCount(table.getDataCount("active"));
    }

    function setFilter(filter) {
        state.filter = filter;
        if (state.table === "flows") applyFilter();
        else {
            state.table = "flows";
            showTable();
        }
    }

    // ---- start -------------------------------------------------------------------------------------------------------

    if (!runs.length) {
        byId("loading").textContent = "The results hold no run.";
        document.documentElement.dataset.ready = "yes";
        return;
    }
    byId("loading").remove();
    runs.forEach((run, i) => byId("cards").append(card(run, i)));
    addChart("fct-chart", fctOption, () => "Flow completion time of all runs. Plus and minus zoom, arrows move, 0 shows all.");
    const topology = addChart("topology-chart", topologyOption, () => "Topology. Arrows step through the links, Enter filters the flow table.");
    topology.wire = wireTopology;
    topology.box.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (!topology.chart || (!step && event.key !== "Enter")) return;
        event.preventDefault();
        if (step) chooseLink(state.link < 0 && step < 0 ? -1 : state.link + step);
        else if (state.link >= 0) filterByLink(state.link);
    });
    const matrix = addChart("matrix-chart", matrixOption, () => "Traffic matrix. Arrows step through the cells, Enter filters the flow table.");
    matrix.wire = wireMatrix;
    matrix.box.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (!matrix.chart || (!step && event.key !== "Enter")) return;
        event.preventDefault();
        if (step) chooseCell(state.cell < 0 && step > 0 ? 1 : step);
        else if (state.cell >= 0) filterByCell(state.cell);
    });
    addChart("timeline-chart", timelineOption, () => "Timeline. Plus and minus zoom, arrows move, 0 shows all.");
    for (const id of ["fct-curve", "fct-scale"]) byId(id).addEventListener("change", () => draw(charts.get("fct-chart")));
    byId("matrix-part").addEventListener("change", () => {
        state.cell = -1;
        draw(charts.get("matrix-chart"));
    });
    byId("topology-colour").addEventListener("change", () => {
        draw(charts.get("topology-chart"));
        drawScale();
    });
    byId("filter-clear").addEventListener("click", () => setFilter(null));
    const tabs = [...document.querySelectorAll("[role=tab]")];
    tabs.forEach((tab, i) => {
        tab.addEventListener("click", () => {
            state.table = tab.dataset.table;
            showTable();
        });
        tab.addEventListener("keydown", (event) => {
            const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
            if (!step) return;
            const next = tabs[(i + step + tabs.length) % tabs.length];
            next.focus();
            next.click();
        });
    });
    byId("theme").addEventListener("click", () => setTheme({ auto: "light", light: "dark", dark: "auto" }[theme()]));
    systemDark.addEventListener("change", redraw);
    // The paper's style sheet is not in force yet when charts must be drawn for it: a class stands in for it.
    let closed = [];
    addEventListener("beforeprint", () => {
        if (printing) return;
        printing = true;
        document.documentElement.classList.add("printing");
        closed = [...document.querySelectorAll("#documents details:not([open])")];
        for (const part of closed) part.open = true;
        fillPaperTable();
        redraw();
    });
    addEventListener("afterprint", () => {
        printing = false;
        document.documentElement.classList.remove("printing");
        for (const part of closed) part.open = false;
        redraw();
    });
    let saved = "auto";
    try {
        saved = localStorage.getItem("topoopt-theme") ?? "auto";
    } catch {
        // As above: no storage, no memory of the choice.
    }
    document.documentElement.dataset.theme = ["light", "dark"].includes(saved) ? saved : "auto";
    byId("theme").textContent = `Theme: ${theme()}`;
    selectRun(0);
    globalThis.topooptReport = { data, charts, state, selectRun, filterByCell, filterByLink, table: () => table };
    document.documentElement.dataset.ready = "yes";
})();
