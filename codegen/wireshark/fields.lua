-- The engine: it reads bytes by the tables above and adds what it reads to Wireshark's tree.
-- It runs on the Lua 5.2 of Wireshark up to 4.2 and on the Lua 5.4 after it.

local proto = Proto("kraftspec", "Apache Kafka (kraftspec)")
proto.prefs.ports = Pref.range("TCP ports", "9092,9093", "Ports of Kafka's listeners", 65535)
proto.prefs.crc = Pref.bool("Check CRC-32C", true, "Compute the checksum of record batches")

local SIZE_MAX = 0x10000000 -- A TLS record begins with more; Kafka's default limit is less.
local METADATA_TOPIC, METADATA_TOPIC_ID = "__cluster_metadata", "AAAAAAAAAAAAAAAAAAAAAQ"

local fields, kinds = {}, {} -- abbreviation -> ProtoField, its kind
local F = setmetatable({}, { -- path -> ProtoField; `kraftspec.` stands before each path
  __index = function(_, path) error("no field " .. path) end,
})

-- The fields ---------------------------------------------------------------------------------

local MAKE = {
  bool = ProtoField.bool, int8 = ProtoField.int8, int16 = ProtoField.int16,
  uint16 = ProtoField.uint16, int32 = ProtoField.int32, uint32 = ProtoField.uint32,
  int64 = ProtoField.int64, float64 = ProtoField.double, string = ProtoField.string,
  uuid = ProtoField.string, bytes = ProtoField.bytes, records = ProtoField.bytes,
  none = ProtoField.none, frame = ProtoField.framenum,
}

local function define(path, name, kind, ...)
  if kinds[path] then
    if kinds[path] ~= kind then error(path .. " is " .. kinds[path] .. " and " .. kind) end
    return
  end
  kinds[path] = kind
  local made = MAKE[kind]("kraftspec." .. path, name, ...)
  rawset(F, path, made)
  fields[#fields + 1] = made
end

local function snake(name)
  name = name:gsub("(%u+)(%u%l)", "%1_%2"):gsub("([%l%d])(%u)", "%1_%2")
  return name:lower()
end

-- A layout as the tables have it: words, see the top of this file.
local parsed = {}
local function layout_of(number)
  local layout = parsed[number]
  if layout then return layout end
  layout = { flexible = false, fields = {}, tagged = {}, later = {} }
  parsed[number] = layout
  for word in LAYOUTS[number]:gmatch("%S+") do
    local later = word:match("^!(%d+)$")
    local tag, name, wire, element, nullable = word:match("^@?(%d*):?(%a%w*):([%w_]+)<?([%w_]*)>?(%??)$")
    if word == "+" then
      layout.flexible = true
    elseif later then
      layout.later[tonumber(later)] = true
    else
      local compact = wire:match("^compact_(.*)$")
      local field = {
        name = name, wire = compact or wire, compact = compact ~= nil, nullable = nullable == "?",
        element = tonumber(element) or (element ~= "" and element or nil), key = snake(name),
      }
      if tag ~= "" then
        layout.tagged[tonumber(tag)] = field
      else
        layout.fields[#layout.fields + 1] = field
      end
    end
  end
  return layout
end

local function define_struct(number, path, done)
  local mark = path .. "\0" .. number
  if done[mark] then return end
  done[mark] = true
  local layout = layout_of(number)
  local function define_field(field)
    local inner, wire, element = path .. "." .. field.key, field.wire, field.element
    if wire == "array" then
      define(inner .. ".length", field.name, "int32")
      if type(element) == "number" then
        define(inner .. ".element", field.name, "none")
        define_struct(element, inner, done)
        return
      end
      wire = element:gsub("^compact_", "")
    end
    if wire == "struct" then
      define(inner, field.name, "none")
      define_struct(element, inner, done)
    elseif field.name:lower():match("errorcode$") and wire == "int16" then
      define(inner, field.name, wire, base.DEC, ERRORS)
    else
      define(inner, field.name, wire)
    end
  end
  for _, field in ipairs(layout.fields) do define_field(field) end
  for _, field in pairs(layout.tagged) do define_field(field) end
end

-- "4: 100/1 101/1": the layouts of version 4 and up, and the versions of the headers before them.
local function versions_of(text)
  local versions = { first = tonumber(text:match("^(%d+):")) }
  local version = versions.first
  for layout, header in text:gmatch("(%d+)/(%d*)") do
    versions[version] = { layout = tonumber(layout), header = tonumber(header) }
    versions.last, version = version, version + 1
  end
  return versions
end

local API_NAMES = {}
local function define_messages()
  local done = {}
  local function define_versions(message, path)
    for version = message.first or 1, message.last or 0 do
      define_struct(message[version].layout, path, done)
    end
  end
  for key, api in pairs(APIS) do
    API_NAMES[key] = api[1]
    api.name, api.path, api.request, api.response = api[1], snake(api[1]), versions_of(api[2]), versions_of(api[3])
  end
  for _, kind in ipairs({ "RequestHeader", "ResponseHeader" }) do
    HEADERS[kind] = versions_of(HEADERS[kind])
  end
  define("header.request_api_key", "requestApiKey", "int16", base.DEC, API_NAMES)
  define_versions(HEADERS.RequestHeader, "header")
  define_versions(HEADERS.ResponseHeader, "header")
  for _, api in pairs(APIS) do
    define_versions(api.request, api.path)
    define_versions(api.response, api.path)
  end
  for _, records in ipairs({ METADATA_RECORDS, CONTROL_RECORDS }) do
    for _, record in pairs(records) do
      record.name, record.path, record.versions = record[1], snake(record[1]), versions_of(record[2])
      define_versions(record.versions, record.path)
    end
  end
end

define_messages()
define("size", "size", "int32")
define("null", "null", "none")
define("tags", "taggedFields", "uint32")
define("tag", "tag", "uint32")
define("tag.size", "size", "uint32")
define("tag.unknown", "unknown tagged field", "bytes")
define("marker", "present", "int8")
define("data", "data", "bytes")
define("error", "error", "string")
define("response_in", "response in", "frame", base.NONE, frametype.RESPONSE)
define("request_in", "request in", "frame", base.NONE, frametype.REQUEST)
define("response_time", "seconds since the request", "float64")
-- Record batches: their own fields, and names for the bits of attributes.
define("batch", "batch", "none")
for _, entry in ipairs({
  { "baseOffset", "int64" }, { "batchLength", "int32" }, { "partitionLeaderEpoch", "int32" },
  { "magic", "int8" }, { "crc", "uint32", base.HEX }, { "attributes", "int16", base.DEC },
  { "lastOffsetDelta", "int32" }, { "baseTimestamp", "int64" }, { "maxTimestamp", "int64" },
  { "producerId", "int64" }, { "producerEpoch", "int16" }, { "baseSequence", "int32" },
  { "recordCount", "int32" }, { "compression", "string" }, { "transactional", "bool" },
  { "control", "bool" }, { "logAppendTime", "bool" }, { "compressed", "bytes" },
}) do
  define("batch." .. snake(entry[1]), entry[1], entry[2], entry[3])
end
for _, entry in ipairs({
  { "", "none" }, { "length", "int32" }, { "attributes", "int8" }, { "timestampDelta", "int64" },
  { "offsetDelta", "int32" }, { "key", "bytes" }, { "value", "bytes" }, { "headers.length", "int32" },
  { "headers.element", "none" }, { "headers.key", "string" }, { "headers.value", "bytes" },
  { "frameVersion", "uint32" }, { "type", "int16" }, { "version", "int16" }, { "offset", "int64" },
}) do
  local path = entry[1] == "" and "record" or "record." .. entry[1]
  define(snake(path), entry[1] == "" and "record" or entry[1]:match("[%w]+$"), entry[2])
end
proto.fields = fields

local malformed = ProtoExpert.new("kraftspec.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR)
local irregular = ProtoExpert.new("kraftspec.irregular", "Irregular", expert.group.PROTOCOL, expert.severity.WARN)
local undecoded = ProtoExpert.new("kraftspec.undecoded", "Undecoded", expert.group.UNDECODED, expert.severity.NOTE)
proto.experts = { malformed, irregular, undecoded }
