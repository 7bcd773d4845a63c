// Put in front of a Node double by `node --require`: it listens on loopback only.
"use strict";
const net = require("net");
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  return listen.call(this, Number(port), "127.0.0.1", ...rest.filter((one) => typeof one === "function"));
};
