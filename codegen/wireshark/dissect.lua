-- Frames, and which request a response belongs to -----------------------------------------------

local streams, answers, asked = {}, {}, {}

function proto.init()
  streams, answers, asked = {}, {}, {}
end

local function addresses(pinfo)
  return tostring(pinfo.src) .. ":" .. pinfo.src_port, tostring(pinfo.dst) .. ":" .. pinfo.dst_port
end

-- The name of a connection. Wireshark's own number of it, tcp.stream, is not there in each pass.
local function stream_name(pinfo)
  local source, destination = addresses(pinfo)
  return source < destination and source .. " " .. destination or destination .. " " .. source
end

-- Whether a request begins at byte `at`: its API and version exist, and its client id fits.
local function looks_like_request(tvb, at)
  if tvb:len() - at < 12 then return false end
  local size, api = tvb(at, 4):int(), APIS[tvb(at + 4, 2):int()]
  local version = api and api.request[tvb(at + 6, 2):int()]
  if size < 8 or size > SIZE_MAX or not version or tvb(at + 8, 4):int() < 0 then return false end
  if version.header == 0 then return true end
  if size < 10 or tvb:len() - at < 14 then return false end
  local length = tvb(at + 12, 2):int()
  if length < -1 or length > size - 10 then return false end
  local shown = math.min(math.max(length, 0), tvb:len() - at - 14)
  return shown == 0 or not tvb(at + 14, shown):raw():find("[%c\128-\255]")
end

-- The stream of a packet: who is its client, and what was asked and not yet answered.
local function stream_of(pinfo, tvb)
  local source, destination = addresses(pinfo)
  local number = stream_name(pinfo)
  local stream = streams[number]
  if stream then return stream end
  local client = source
  if pinfo.match_uint == pinfo.src_port and pinfo.src_port ~= pinfo.dst_port and not looks_like_request(tvb, 0) then
    client = destination
  end
  stream = { number = number, client = client, pending = {} }
  streams[number] = stream
  return stream
end


local function add_data(root, tvb, at, text)
  local item = root:add(F.data, tvb(at))
  item:add_proto_expert_info(undecoded, text)
end

local function read_header(reader, tree, kind, version)
  local header = tree:add(proto, reader.tvb(reader.at), kind .. " header v" .. version)
  local start = reader.at
  local done = reading(reader, function()
    read_struct(reader, header, HEADERS[kind == "request" and "RequestHeader" or "ResponseHeader"][version].layout, "header")
  end)
  header:set_len(reader.at - start)
  return done
end

-- The header, and then the message, if there is a layout of this API and version.
local function read_frame(reader, root, api, kind, version, name)
  local chosen = api and api[kind][version]
  local is_request = kind == "request"
  if not read_header(reader, root, kind, chosen and chosen.header or (is_request and 1 or 0)) then return end
  if chosen then
    local title = string.format("%s%s v%d", api.name, is_request and "Request" or "Response", version)
    local body = root:add(proto, reader.tvb(reader.at), title)
    reader.from = reader.at
    read_message(reader, body, chosen.layout, api.path)
  elseif reader.at < reader.tvb:len() then
    add_data(root, reader.tvb, reader.at, "no layout of " .. name)
  end
end

local function dissect_request(pinfo, tvb, root, stream)
  local reader = new_reader(tvb, root, 4, tvb:len())
  if tvb:len() < 12 then
    reading(reader, function() need(reader, 8, "a request header") end)
    return "short request"
  end
  local key, version, correlation = tvb(4, 2):int(), tvb(6, 2):int(), tvb(8, 4):int()
  local api = APIS[key]
  local question = asked[stream.number .. ":" .. pinfo.number .. ":" .. correlation]
  if not question then
    question = { key = key, version = version, frame = pinfo.number, time = pinfo.rel_ts }
    asked[stream.number .. ":" .. pinfo.number .. ":" .. correlation] = question
    stream.pending[correlation] = question
  end
  local name = string.format("%s v%d request", api and api.name or "API key " .. key, version)
  root:append_text(", " .. name .. ", correlation id " .. correlation)
  if question.answer then root:add(F.response_in, tvb(8, 4), question.answer):set_generated() end
  read_frame(reader, root, api, "request", version, name)
  return name
end

-- A node that does not know the version of an ApiVersions request answers in version 0 (KIP-511).
local function is_fallback(question, tvb, at)
  local size = tvb:len() - at
  return question.key == 18 and question.version > 0 and size >= 6 and tvb(at, 2):int() == 35
    and size == 6 + 6 * tvb(at + 2, 4):int()
end

local function dissect_response(pinfo, tvb, root, stream)
  local reader = new_reader(tvb, root, 4, tvb:len())
  if tvb:len() < 8 then
    reading(reader, function() need(reader, 4, "a response header") end)
    return "short response"
  end
  local correlation = tvb(4, 4):int()
  local mark = stream.number .. ":" .. pinfo.number .. ":" .. correlation
  local question = answers[mark]
  if not question and not pinfo.visited then
    question = stream.pending[correlation]
    stream.pending[correlation] = nil
    answers[mark] = question
    if question then question.answer = pinfo.number end
  end
  if not question then
    root:append_text(", response, correlation id " .. correlation)
    if read_header(reader, root, "response", 0) and reader.at < tvb:len() then
      add_data(root, tvb, reader.at, "its request is not in the capture, so its message is not known")
    end
    return "response to an unknown request"
  end
  local version = is_fallback(question, tvb, 8) and 0 or question.version
  local api = APIS[question.key]
  local name = string.format("%s v%d response", api and api.name or "API key " .. question.key, version)
  root:append_text(", " .. name .. ", correlation id " .. correlation)
  root:add(F.request_in, tvb(4, 4), question.frame):set_generated()
  root:add(F.response_time, tvb(4, 4), pinfo.rel_ts - question.time):set_generated()
  read_frame(reader, root, api, "response", version, name)
  return name
end

local function dissect_frame(tvb, pinfo, tree)
  local stream = stream_of(pinfo, tvb)
  local root = tree:add(proto, tvb())
  root:add(F.size, tvb(0, 4))
  local size = tvb(0, 4):int()
  if size < 0 or size > SIZE_MAX then
    local reader = new_reader(tvb, root, 0, tvb:len())
    complain(reader, malformed, size < 0 and "negative_length" or "length_too_long", "a frame of " .. size .. " bytes", 0)
    return tvb:len()
  end
  local source = addresses(pinfo)
  local dissect = source == stream.client and dissect_request or dissect_response
  stream.names[#stream.names + 1] = dissect(pinfo, tvb, root, stream)
  return tvb:len()
end

local function frame_size(tvb, pinfo, offset)
  local size = tvb(offset, 4):int()
  if size < 0 or size > SIZE_MAX then return tvb:len() - offset end
  return size + 4
end

function proto.dissector(tvb, pinfo, tree)
  if tvb:len() >= 4 then
    local size = tvb(0, 4):int()
    local known = streams[stream_name(pinfo)]
    if not known and (size < 0 or size > SIZE_MAX) then return 0 end -- TLS, perhaps.
  end
  pinfo.cols.protocol = "KAFKA"
  local stream = stream_of(pinfo, tvb)
  stream.names = {}
  dissect_tcp_pdus(tvb, tree, 4, frame_size, dissect_frame)
  if #stream.names > 0 then pinfo.cols.info = table.concat(stream.names, ", ") end
  return tvb:len()
end

local function heuristic(tvb, pinfo, tree)
  if not looks_like_request(tvb, 0) then return false end
  pinfo.conversation = proto
  proto.dissector(tvb, pinfo, tree)
  return true
end

proto:register_heuristic("tcp", heuristic)
proto:register_heuristic("tls", heuristic)

-- The chosen ports are taken from Wireshark's own dissector of Kafka.
local registered
local function register_ports()
  for _, name in ipairs({ "tcp.port", "tls.port" }) do
    local ports = DissectorTable.get(name)
    if registered then ports:remove(registered, proto) end
    ports:add(proto.prefs.ports, proto)
  end
  registered = proto.prefs.ports
end

function proto.prefs_changed()
  if registered ~= proto.prefs.ports then register_ports() end
end

register_ports()
