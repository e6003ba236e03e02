import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.*;
import java.nio.ByteBuffer; import java.util.*;

/**
 * Writes messages of groups of the streams protocol as Apache Kafka encodes them, in hexadecimal digits:
 *
 *     java -cp "build/kafka-4.3.1/libs/*" tests/golden/messages/StreamsGroupMessages.java > tests/golden/messages/recorded.txt
 */
public class StreamsGroupMessages {
  static String hex(Message m, short v){ ObjectSerializationCache c=new ObjectSerializationCache(); ByteBuffer b=ByteBuffer.allocate(m.size(c,v)); m.write(new ByteBufferAccessor(b), c, v); StringBuilder s=new StringBuilder(); for(byte x: b.array()) s.append(String.format("%02x",x)); return s.toString(); }
  public static void main(String[] a){
    var T=new StreamsGroupHeartbeatRequestData.Topology().setEpoch(0).setSubtopologies(List.of(
      new StreamsGroupHeartbeatRequestData.Subtopology().setSubtopologyId("0").setSourceTopics(List.of("in","other")).setRepartitionSinkTopics(List.of("app-r-repartition")).setCopartitionGroups(List.of(new StreamsGroupHeartbeatRequestData.CopartitionGroup().setSourceTopics(List.of((short)0,(short)1)))),
      new StreamsGroupHeartbeatRequestData.Subtopology().setSubtopologyId("1").setRepartitionSourceTopics(List.of(new StreamsGroupHeartbeatRequestData.TopicInfo().setName("app-r-repartition").setPartitions(6).setReplicationFactor((short)3).setTopicConfigs(List.of(new StreamsGroupHeartbeatRequestData.KeyValue().setKey("cleanup.policy").setValue("delete"))))).setStateChangelogTopics(List.of(new StreamsGroupHeartbeatRequestData.TopicInfo().setName("app-s-changelog").setPartitions(0).setReplicationFactor((short)0)))));
    var join=new StreamsGroupHeartbeatRequestData().setGroupId("app").setMemberId("m-1").setMemberEpoch(0).setEndpointInformationEpoch(-1).setInstanceId("i-1").setRackId("r-1").setRebalanceTimeoutMs(300000).setTopology(T).setActiveTasks(List.of()).setStandbyTasks(List.of()).setWarmupTasks(List.of()).setProcessId("p-1").setUserEndpoint(new StreamsGroupHeartbeatRequestData.Endpoint().setHost("host").setPort(40000)).setClientTags(List.of(new StreamsGroupHeartbeatRequestData.KeyValue().setKey("zone").setValue("a"))).setTaskOffsets(null).setTaskEndOffsets(null).setShutdownApplication(false);
    System.out.println("join "+hex(join,(short)0));
    var beat=new StreamsGroupHeartbeatRequestData().setGroupId("app").setMemberId("m-1").setMemberEpoch(7).setEndpointInformationEpoch(3).setRebalanceTimeoutMs(-1).setActiveTasks(List.of(new StreamsGroupHeartbeatRequestData.TaskIds().setSubtopologyId("0").setPartitions(List.of(0,2)),new StreamsGroupHeartbeatRequestData.TaskIds().setSubtopologyId("1").setPartitions(List.of(5)))).setStandbyTasks(List.of()).setWarmupTasks(List.of()).setClientTags(null).setTaskOffsets(null).setTaskEndOffsets(null).setShutdownApplication(true);
    System.out.println("beat "+hex(beat,(short)0));
    var plain=new StreamsGroupHeartbeatRequestData().setGroupId("app").setMemberId("m-1").setMemberEpoch(-1).setEndpointInformationEpoch(-1).setRebalanceTimeoutMs(-1).setActiveTasks(null).setStandbyTasks(null).setWarmupTasks(null).setClientTags(null).setTaskOffsets(null).setTaskEndOffsets(null);
    System.out.println("leave "+hex(plain,(short)0));
    var ans=new StreamsGroupHeartbeatResponseData().setErrorCode((short)0).setMemberId("m-1").setMemberEpoch(8).setHeartbeatIntervalMs(5000).setAcceptableRecoveryLag(10000).setTaskOffsetIntervalMs(60000).setStatus(List.of(new StreamsGroupHeartbeatResponseData.Status().setStatusCode((byte)1).setStatusDetail("Source topics x are missing."))).setActiveTasks(List.of(new StreamsGroupHeartbeatResponseData.TaskIds().setSubtopologyId("0").setPartitions(List.of(0,2)))).setStandbyTasks(List.of(new StreamsGroupHeartbeatResponseData.TaskIds().setSubtopologyId("1").setPartitions(List.of(1)))).setWarmupTasks(List.of()).setEndpointInformationEpoch(4).setPartitionsByUserEndpoint(List.of(new StreamsGroupHeartbeatResponseData.EndpointToPartitions().setUserEndpoint(new StreamsGroupHeartbeatResponseData.Endpoint().setHost("host").setPort(40000)).setActivePartitions(List.of(new StreamsGroupHeartbeatResponseData.TopicPartition().setTopic("in").setPartitions(List.of(0,2))))));
    System.out.println("answer "+hex(ans,(short)0));
    var err=new StreamsGroupHeartbeatResponseData().setErrorCode((short)110).setErrorMessage("fenced").setStatus(null).setActiveTasks(null).setStandbyTasks(null).setWarmupTasks(null).setPartitionsByUserEndpoint(null);
    System.out.println("refusal "+hex(err,(short)0));
    var m=new StreamsGroupDescribeResponseData.Member().setMemberId("m-1").setMemberEpoch(8).setInstanceId(null).setRackId(null).setClientId("c").setClientHost("/10.0.0.1").setTopologyEpoch(0).setProcessId("p-1").setUserEndpoint(new StreamsGroupDescribeResponseData.Endpoint().setHost("host").setPort(40000)).setAssignment(new StreamsGroupDescribeResponseData.Assignment().setActiveTasks(List.of(new StreamsGroupDescribeResponseData.TaskIds().setSubtopologyId("1").setPartitions(List.of(0,3))))).setTargetAssignment(new StreamsGroupDescribeResponseData.Assignment());
    var d=new StreamsGroupDescribeResponseData().setGroups(List.of(new StreamsGroupDescribeResponseData.DescribedGroup().setGroupId("app").setGroupState("NotReady").setGroupEpoch(8).setAssignmentEpoch(7).setTopology(new StreamsGroupDescribeResponseData.Topology().setEpoch(0).setSubtopologies(List.of(new StreamsGroupDescribeResponseData.Subtopology().setSubtopologyId("1").setSourceTopics(List.of("in"))))).setMembers(List.of(m))));
    System.out.println("described "+hex(d,(short)0));
    var oc=new OffsetCommitRequestData().setGroupId("app").setGenerationIdOrMemberEpoch(8).setMemberId("m-1").setTopics(List.of(new OffsetCommitRequestData.OffsetCommitRequestTopic().setName("in").setPartitions(List.of(new OffsetCommitRequestData.OffsetCommitRequestPartition().setPartitionIndex(2).setCommittedOffset(42).setCommittedMetadata("t")))));
    System.out.println("commit "+hex(oc,(short)9));
    System.out.println("groups "+hex(new ListGroupsResponseData().setGroups(List.of(new ListGroupsResponseData.ListedGroup().setGroupId("app").setProtocolType("streams").setGroupState("Stable").setGroupType("Streams"))),(short)5));
    System.out.println("delete "+hex(new DeleteGroupsRequestData().setGroupsNames(List.of("app")),(short)2));
  } }
